#!/usr/bin/env bash
# Install the agents that tests/e2e/test_agents.py drives: pinned, into .agents/ at the top of the repository, or into the
# folder that INFOLD_AGENTS names. Run again it does nothing. Install scripts of npm packages are not run: each brings its
# program inside its package. Those from PyPI get an environment each; one that cannot be installed here is named in `missing`.
set -euo pipefail
cd "$(dirname "$0")/../../.."

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  *) echo "the agents are installed for Linux on x86_64 and aarch64 only" >&2; exit 3 ;;
esac
packages="opencode-$platform@1.18.33 @openai/codex@0.166.0 @mariozechner/pi-coding-agent@0.73.1 \
@anthropic-ai/claude-code@2.1.325 @google/gemini-cli@0.61.0 @qwen-code/qwen-code@0.24.4 @continuedev/cli@1.5.47 cline@3.0.65 \
node-$platform@22.23.3 ai@7.0.169 @ai-sdk/openai-compatible@3.0.90 @ai-sdk/anthropic@4.0.102"
# Name, Python, and what is installed. mini-swe-agent's LiteLLM imports mcp without asking for it.
environments="kimi-cli 3.13 kimi-cli==1.51.0
mini-swe-agent 3.11 mini-swe-agent==2.4.6 mcp
aider-chat 3.11 aider-chat==0.86.2
claude-agent-sdk 3.11 claude-agent-sdk==0.2.182"

folder="${INFOLD_AGENTS:-.agents}"
installed="$folder/installed"
mkdir -p "$folder"
if command -v flock >/dev/null; then
  exec 9>"$folder/lock"
  flock 9  # two test processes may want them at once
fi
if [ "$(cat "$installed" 2>/dev/null || true)" = "$packages $environments" ]; then
  exit 0
fi
command -v npm >/dev/null || { echo "npm is missing; install Node.js 20 or newer" >&2; exit 3; }
uv="$(command -v .venv/bin/uv || command -v uv || true)"
[ -n "$uv" ] || { echo "uv is missing; run \`make test\` first, or install uv" >&2; exit 3; }
rm -rf "$folder/node_modules"
# shellcheck disable=SC2086 # one argument for each package
npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error $packages
: > "$folder/missing"
while read -r name python wanted; do
  rm -rf "${folder:?}/$name"
  # shellcheck disable=SC2086 # one argument for each package
  # pyenv offers a Python only where it is chosen.
  if ! { PYENV_VERSION="$python" "$uv" venv --quiet --python "$python" "$folder/$name" \
         && "$uv" pip install --quiet --python "$folder/$name/bin/python" $wanted; } 2>"$folder/error"; then
    echo "$name: $(tail -n 1 "$folder/error")" >> "$folder/missing"
  fi
done <<< "$environments"
echo "$packages $environments" > "$installed"
