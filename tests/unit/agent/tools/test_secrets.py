"""Which files hold secrets."""

import pytest

from infold.agent.tools.files import is_secret, mentions_secret


@pytest.mark.parametrize(
    "path",
    [
        *(
            ".env",
            "app/.env",
            ".ENV",
            ".env.production",
            "prod.env",
            "server.pem",
            "tls/private.key",
            "id_rsa",
            "x/id_ed25519",
        ),
        *("/home/ada/.ssh/config", ".aws/credentials", ".netrc", ".npmrc"),
        *("credentials.json", "service-account.json", "secrets.yaml", "Secrets.toml", "terraform.tfvars", "x.tfstate"),
        *(
            "x.tfstate.backup",
            "kubeconfig",
            ".vault-token",
            "auth.json",
            "id_rsa.bak",
            ".bash_history",
            ".psql_history",
        ),
        *("gcp-credentials.json", "client_secret_1.json", ".docker/config.json", "infra/prod.auto.tfvars", ".dev.vars"),
        *(".dockerconfigjson", "token.txt", "github_token.txt", "wallet.dat", "api_key.txt", "passwords.txt"),
    ],
)
def test_secrets_are_known_by_name(path: str) -> None:
    """B41: environments, keys, credentials and histories are secrets, in any folder and however they are spelt."""
    assert is_secret(path)


@pytest.mark.parametrize(
    "path",
    [
        *("env.py", ".env.example", ".env.sample", "id_rsa.pub", "keys.py", "environment", "a.b/c", "secrets.py"),
        *("docs/secrets.md", "credentials.ts", "tokens.json", ".docker/Dockerfile", "history.txt", "auth/login.json"),
        *("tokens.txt", "wallet.py", "tokenizer.txt", "keyboard.txt"),
    ],
)
def test_other_files_are_none(path: str) -> None:
    """Code, examples and public keys are read like any file."""
    assert not is_secret(path)


def test_code_in_a_command_is_no_file() -> None:
    """What reads like code is let be, unless it is a path."""
    assert not any(map(mentions_secret, ("process.env", "item.key", ".example")))
    assert all(map(mentions_secret, (".env", "x/prod.env", "tls/a.key", "a.pem", "~/.ssh/known_hosts")))
