"""Which files hold secrets, by their names: keys, passwords, tokens. Reading one is asked for, and searches pass them over."""

from fnmatch import fnmatch
from pathlib import PurePosixPath

__all__ = ["is_secret", "mentions_secret"]

CERTAIN = (
    *(".env", ".env.*", ".envrc", "*.pem", "*.p12", "*.pfx", "*.jks", "*.keystore", "*.kdbx", "*.ppk"),
    *("id_rsa", "id_dsa", "id_ecdsa", "id_ecdsa_sk", "id_ed25519", "id_ed25519_sk"),
    *(".netrc", "_netrc", ".pgpass", ".my.cnf", ".git-credentials", ".npmrc", ".pypirc", ".htpasswd"),
)
LIKELY = ("*.env", "*.key")
"""Names that in code mean something else as often as not: `process.env`, `item.key`."""

HARMLESS = ("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub")
"""Files that only show what such a file looks like, and public keys."""

FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store")


def is_secret(path: str) -> bool:
    """Whether a file of that name is likely to hold a secret."""
    return _is_among(path, (*CERTAIN, *LIKELY))


def mentions_secret(word: str) -> bool:
    """Whether a word of a command is the name of such a file, and not a piece of code that reads like one."""
    return _is_among(word, (*CERTAIN, *LIKELY) if "/" in word else CERTAIN)


def _is_among(path: str, patterns: tuple[str, ...]) -> bool:
    pure = PurePosixPath(path.lower())
    if any(fnmatch(pure.name, pattern) for pattern in HARMLESS):
        return False
    return any(fnmatch(pure.name, pattern) for pattern in patterns) or any(part in FOLDERS for part in pure.parts)
