"""What can be relied on in the token estimate. Exact counts were made with splintr-rs 0.22, o200k_base."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from infold.core.tokens import RUN_CHARS, estimate_tokens

PYTHON = '''\
class Basket:
    """Holds what a customer wants to buy."""

    def __init__(self, owner: str) -> None:
        self.owner = owner
        self.lines: list[Line] = []

    def add(self, product: Product, quantity: int = 1) -> None:
        if quantity < 1:
            raise ValueError(f"quantity must be positive, got {quantity}")
        for line in self.lines:
            if line.product.id == product.id:
                line.quantity += quantity
                return
        self.lines.append(Line(product=product, quantity=quantity))

    @property
    def total_cents(self) -> int:
        return sum(line.product.price_cents * line.quantity for line in self.lines)
'''

DEEP_GO = """\
func (s *Server) handle(w http.ResponseWriter, r *http.Request) {
	for _, route := range s.routes {
		if route.Method == r.Method {
			if match := route.Pattern.FindStringSubmatch(r.URL.Path); match != nil {
				for index, name := range route.Names {
					if name != "" {
						if value, err := url.PathUnescape(match[index+1]); err == nil {
							r.SetPathValue(name, value)
						} else {
							http.Error(w, "bad path", http.StatusBadRequest)
							return
						}
					}
				}
				route.Handler.ServeHTTP(w, r)
				return
			}
		}
	}
	http.NotFound(w, r)
}
"""

MARKDOWN = """\
## What changed

The importer no longer reads the whole file before it starts. It now walks the rows one by one, which keeps
memory flat even for very large exports, and it reports **how far** it got when a row cannot be read.

- Rows without an identifier are skipped, and counted in the summary.
- The `--strict` flag turns a skipped row into an error.
- Dates may be written as `2024-05-01` or `01.05.2024`; anything else is rejected.

1. Run the migration first.
2. Restart the workers, then the web process.

See the [upgrade guide](docs/upgrade.md) for the older format.
"""

JSON = """\
{"order": {"id": 48213, "status": "shipped", "customer": {"name": "Ada Example", "email": "ada@example.com"},
"lines": [{"sku": "LAMP-20", "quantity": 2, "price": 19.95}, {"sku": "DESK-7", "quantity": 1, "price": 249.0}],
"shipping": {"method": "express", "tracking": null, "address": {"street": "Main Street 5", "zip": "10115"}},
"tags": ["gift", "fragile"], "created_at": "2024-05-01T09:30:00Z", "paid": true}}"""

SERVICE_LOG = "\n".join(
    f"2024-05-01 09:{m:02}:{m * 7 % 60:02},{m * 37 % 1000:03} INFO [worker-{m % 4}] job {1000 + m * 13} "
    f"finished in {m * 91 % 700} ms, 0 errors, queue=default"
    for m in range(12)
)

TEST_REPORT = """\
============================= test session starts ==============================
platform linux -- Python 3.11.7, pytest-8.2.0, pluggy-1.5.0
rootdir: /home/dev/shop
collected 14 items

tests/test_basket.py ......                                              [ 42%]
tests/test_orders.py ....F...                                            [100%]

=================================== FAILURES ===================================
__________________________ test_total_counts_quantity __________________________

    def test_total_counts_quantity():
>       assert basket.total_cents == 1990
E       AssertionError: assert 995 == 1990

tests/test_orders.py:31: AssertionError
=========================== short test summary info ============================
FAILED tests/test_orders.py::test_total_counts_quantity - AssertionError
========================= 1 failed, 13 passed in 0.42s =========================
"""

CHINESE = """\
我已经看过这个函数，问题出在缓存没有及时更新。每次用户修改资料以后，旧的数据仍然留在内存里，所以页面显示的还是以前的名字。
建议分两步处理：首先在保存成功之后清除对应的缓存键，然后在读取的时候加上过期时间，例如十分钟。这样即使某一次清除失败，错误的数据也不会一直存在。
另外，测试里没有覆盖并发修改的情况，我会补充一个测试，确认两个请求同时到达时结果是正确的。"""

JAPANESE = """\
この関数を確認しました。原因は、キャッシュが更新されていないことです。ユーザーがプロフィールを変更しても、古いデータがメモリに残っているため、画面には以前の名前が表示されます。
まず保存が成功したあとにキャッシュを削除し、次に読み込み時に有効期限を設定することを提案します。こうすれば、削除に失敗しても間違ったデータが残り続けることはありません。
また、同時に変更された場合のテストがないので、追加しておきます。"""

KOREAN = """\
이 함수를 확인했습니다. 문제는 캐시가 제때 갱신되지 않는 데 있습니다.
사용자가 프로필을 수정해도 예전 데이터가 메모리에 남아 있어서 화면에는 이전 이름이 그대로 표시됩니다.
먼저 저장이 성공한 다음 해당 캐시를 삭제하고, 그다음 읽을 때 만료 시간을 설정하는 것을 제안합니다.
이렇게 하면 삭제에 실패하더라도 잘못된 데이터가 계속 남아 있지 않습니다.
또한 동시에 수정되는 경우에 대한 테스트가 없으므로 추가하겠습니다."""

BASE64 = base64.b64encode(bytes(i * i * 7 % 251 for i in range(600))).decode()

HEXADECIMAL = bytes(i * i * 31 % 253 for i in range(300)).hex()

TYPESCRIPT = """\
export async function fetchProfile(userId: string, signal?: AbortSignal): Promise<UserProfile> {
  const response = await fetch(`${API_BASE_URL}/users/${userId}`, { signal, headers: defaultHeaders() });
  if (!response.ok) {
    throw new HttpError(response.status, await response.text());
  }
  const { displayName, avatarUrl, createdAt } = await response.json();
  return { displayName, avatarUrl, createdAt: new Date(createdAt) };
}
"""

NUMBERED = "\n".join(f"{number:6d}→{line}" for number, line in enumerate(PYTHON.split("\n"), 118))

EXACT_TOKENS = {
    "Python code": (PYTHON, 154),
    "deeply indented Go": (DEEP_GO, 158),
    "markdown": (MARKDOWN, 143),
    "JSON": (JSON, 151),
    "a service log": (SERVICE_LOG, 455),
    "a test report": (TEST_REPORT, 173),
    "Chinese": (CHINESE, 116),
    "Japanese": (JAPANESE, 134),
    "Korean": (KOREAN, 116),
    "base64": (BASE64, 551),
    "hexadecimal digits": (HEXADECIMAL, 335),
    "TypeScript": (TYPESCRIPT, 102),
    "code with line numbers": (NUMBERED, 237),
}

LONG_RUNS = {
    "a": 12_500,
    "x": 12_500,
    "A": 12_500,
    "7": 33_334,
    " ": 782,
    "\n": 6_250,
    "-": 1_562,
    "=": 1_562,
    "_": 1_563,
    ".": 1_563,
    "中": 100_000,
    "가": 100_000,
}

MIXED = ("Python code", "JSON", "Chinese", "base64")
ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=200)


def test_nothing_costs_nothing() -> None:
    """An empty text has no tokens."""
    assert estimate_tokens("") == 0


@pytest.mark.parametrize("kind", EXACT_TOKENS)
def test_a_short_text_is_met_within_15_per_cent(kind: str) -> None:
    """A text of a few lines is estimated within 15 % of its exact count, whatever its kind."""
    text, exact = EXACT_TOKENS[kind]
    assert estimate_tokens(text) == pytest.approx(exact, rel=0.15)


@pytest.mark.parametrize("char", LONG_RUNS)
def test_a_text_of_one_character_is_met_within_30_per_cent(char: str) -> None:
    """A hundred thousand times the same character is estimated within 30 % of the exact count."""
    assert estimate_tokens(char * 100_000) == pytest.approx(LONG_RUNS[char], rel=0.3)


def test_encoded_bytes_are_far_more_than_a_quarter_of_their_characters() -> None:
    """Base64 and hexadecimal digits cost more than one token for two characters."""
    assert estimate_tokens(BASE64) > len(BASE64) / 2
    assert estimate_tokens(HEXADECIMAL) > len(HEXADECIMAL) / 2


def test_half_a_character_is_no_obstacle() -> None:
    """A lone surrogate, which no UTF-8 can hold, is counted and not refused."""
    assert estimate_tokens("broken \ud83d emoji") >= 3
    assert estimate_tokens("\udcff" * 2 * RUN_CHARS) > 1


@given(ANY_TEXT.filter(bool))
def test_any_text_has_a_token_and_no_more_than_five_a_character(text: str) -> None:
    """No text is free, and none costs more than five tokens for each of its characters."""
    assert 1 <= estimate_tokens(text) <= 1 + 5 * len(text)


@given(st.text(st.characters(exclude_categories=()), max_size=60), st.text(max_size=60))
def test_joining_two_texts_changes_the_estimate_by_little(first: str, second: str) -> None:
    """Joining two texts changes the sum of their estimates by what a seam can cost, not by their length."""
    assert abs(estimate_tokens(first + second) - estimate_tokens(first) - estimate_tokens(second)) <= 8


@pytest.mark.parametrize("first", MIXED)
@pytest.mark.parametrize("second", MIXED)
def test_long_texts_add_up(first: str, second: str) -> None:
    """Two longer texts, of one kind or of two, cost together within 1 % of what they cost apart."""
    one, two = EXACT_TOKENS[first][0] * 10, EXACT_TOKENS[second][0] * 10
    apart = estimate_tokens(one) + estimate_tokens(two)
    assert estimate_tokens(one + two) == pytest.approx(apart, rel=0.01)


def test_a_drawn_line_is_cheap() -> None:
    """A rule of eighty dashes costs a few tokens, not twenty."""
    assert estimate_tokens("-" * 80 + "\n") <= 4


def test_a_text_twice_as_long_costs_twice_as_much() -> None:
    """Repeating a passage a thousand times costs a thousand times as much, within 1 %."""
    assert estimate_tokens(MARKDOWN * 1_000) == pytest.approx(1_000 * estimate_tokens(MARKDOWN), rel=0.01)
