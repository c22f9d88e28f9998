"""Old names of the contracts."""

from infold.testing.model_contract import check_model as check_model
from infold.testing.store_contract import STORE_RULES as STORE_RULES
from infold.testing.store_contract import check_store as check_store
