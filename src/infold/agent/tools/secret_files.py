"""Which files hold secrets, by their names: keys, passwords, tokens. Reading one is asked for, and searches pass them over."""

from fnmatch import fnmatch
from pathlib import PurePosixPath

CERTAIN = (
    *(".env", ".env.*", ".envrc", ".dev.vars", "*.pem", "*.p12", "*.pfx", "*.pkcs12", "*.jks", "*.keystore", "*.bks"),
    *("*.kdbx", "*.kdb", "*.ppk", "*.ovpn", "*.keychain", "*.keychain-db", "*.agekey", "*.gpgkey"),
    *("id_rsa*", "id_dsa*", "id_ecdsa*", "id_ed25519*", "id_xmss*", "ssh_host_*_key"),
    *(".netrc", "_netrc", ".authinfo", ".pgpass", ".my.cnf", ".mylogin.cnf", ".git-credentials", ".htpasswd"),
    *(".npmrc", ".pypirc", ".dockercfg", ".s3cfg", ".boto", ".sentryclirc", ".clasprc.json", ".vault-token"),
    *("credentials.*", "*-credentials.*", "*_credentials.*", "client_secret*.json", "service[-_]account*.json"),
    *("*firebase-adminsdk*.json", "application_default_credentials.json", "secrets.*", "secret.*", "*.secrets"),
    *(".secrets", ".secret", "auth.json", "token.json", ".token", "local.settings.json", "wp-config.php"),
    *("*.tfvars", "*.tfvars.json", "*.tfstate", "*.tfstate.*", ".terraformrc", "*.tfrc", "*.tfrc.json"),
    *("kubeconfig", "kubeconfig.*", "*.kubeconfig", "vault-token", "master.key"),
    *(".*_history", ".*history", "consolehost_history.txt"),
)
LIKELY = ("*.env", "*.key", "credentials", "secrets")
"""Names that in code mean something else as often as not: `process.env`, `item.key`."""

HARMLESS = (
    *("*.example", "*.sample", "*.template", "*.dist", "*.defaults", "*.pub", "*.md", "*.rst"),
    *("*.py", "*.pyi", "*.js", "*.mjs", "*.ts", "*.tsx", "*.jsx", "*.go", "*.rs", "*.rb", "*.java", "*.kt", "*.cs"),
    *("*.c", "*.h", "*.cpp", "*.hpp", "*.swift", "*.scala", "*.ex", "*.exs", "*.html", "*.css", "*.vue", "*.svelte"),
)
"""Files that only show what such a file looks like, public keys, and source code that is about secrets."""

FOLDERS = (".ssh", ".gnupg", ".aws", ".azure", ".kube", ".password-store", ".secrets")
ENDINGS = (
    *(".docker/config.json", ".config/gh/hosts.yml", ".config/gcloud", ".cargo/credentials", ".gem/credentials"),
    *(".config/rclone/rclone.conf", ".config/op", ".config/hub", ".subversion/auth", ".m2/settings.xml"),
)
"""Files and folders that hold secrets in one place only; elsewhere their names are ordinary."""


def is_secret(path: str) -> bool:
    """Whether a file of that name is likely to hold a secret."""
    return _is_among(path, (*CERTAIN, *LIKELY))


def mentions_secret(word: str) -> bool:
    """Whether a word of a command is the name of such a file, and not a piece of code that reads like one."""
    return _is_among(word, (*CERTAIN, *LIKELY) if "/" in word else CERTAIN)


def _is_among(path: str, patterns: tuple[str, ...]) -> bool:
    pure = PurePosixPath(path.lower())
    if any(part in FOLDERS for part in pure.parts) or any(f"/{ending}" in f"/{pure}" for ending in ENDINGS):
        return not fnmatch(pure.name, "*.pub")
    if any(fnmatch(pure.name, pattern) for pattern in HARMLESS):
        return False
    return any(fnmatch(pure.name, pattern) for pattern in patterns)
