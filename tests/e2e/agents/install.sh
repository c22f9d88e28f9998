#!/usr/bin/env bash
# Install the coding agents that tests/e2e/test_agents.py drives: pinned, into .agents/ at the top of the repository, or
# into the folder that INFOLD_AGENTS names. Run again it does nothing. Their own install scripts are not run: each brings its program inside its package.
set -euo pipefail
cd "$(dirname "$0")/../../.."

case "$(uname -s)-$(uname -m)" in
  Linux-x86_64) platform=linux-x64 ;;
  Linux-aarch64) platform=linux-arm64 ;;
  *) echo "the agents are installed for Linux on x86_64 and aarch64 only" >&2; exit 3 ;;
esac
packages="opencode-$platform@1.18.33 @openai/codex@0.166.0 @mariozechner/pi-coding-agent@0.73.1"

folder="${INFOLD_AGENTS:-.agents}"
installed="$folder/installed"
mkdir -p "$folder"
if command -v flock >/dev/null; then
  exec 9>"$folder/lock"
  flock 9  # two test processes may want them at once
fi
if [ "$(cat "$installed" 2>/dev/null || true)" = "$packages" ]; then
  exit 0
fi
command -v npm >/dev/null || { echo "npm is missing; install Node.js 20 or newer" >&2; exit 3; }
rm -rf "$folder/node_modules"
# shellcheck disable=SC2086 # one argument for each package
npm install --prefix "$folder" --no-audit --no-fund --no-save --ignore-scripts --loglevel=error $packages
echo "$packages" > "$installed"
