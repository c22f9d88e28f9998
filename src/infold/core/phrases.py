"""Words and forms by which the judge recognises what a text does, in the languages it knows.

Only patterns and lists; `judge.py` decides what follows from them. Every pattern takes linear time on any text.
"""

import re

REFUSAL = re.compile(
    r"(?:i['’]?m (?:very )?sorry|i am sorry|sorry,|i can(?:['’]t|not| not)|i['’]?m (?:not able|unable)|"
    r"i am (?:not able|unable)"
    r"|(?:sure|of course|certainly|please)\b.{0,60}\b(?:share|provide|paste|send)\b.{0,60}\b(?:conversation|"
    r"transcript|record)"
    r"|as an ai|unfortunately, i|je suis désolé|désolé|es tut mir leid|lo siento|抱歉|对不起|申し訳|ごめん|죄송)",
    re.IGNORECASE,
)
NOTHING = re.compile(
    r"^[^\S\n]*+(?:#+.*|\*\*[^*\n]*\*\*:?|[-*\d.]*+[^\S\n]*+\(?(?:none|n/a|nothing|empty|无|なし|없음)\)?[.:]?)[^\S\n]*+$",
    re.I | re.M,
)
"""Lines without content: headings, and phrases for having nothing to report."""

SCRATCHPAD = re.compile(r"<(analysis|thinking|scratchpad|think)>.*?(?:</\1>|\Z)", re.DOTALL | re.IGNORECASE)
CALL_AS_TEXT = re.compile(
    r"<(?:tool_calls?|function_calls?|invoke|tool_use|function=|\|?(?:python_tag|tool))|<｜tool|\[TOOL_CALLS?\]"
    r"|<[a-z][a-z0-9_]{2,30}>\s{0,9}<[a-z][a-z0-9_]{1,30}>|```(?:tool_code|tool_calls?)|(?:to=)?functions\.\w{2,40}"
    r"|Action:[^\n]{1,80}\n{1,2}Action Input:"
    r'|(?:```(?:json)?\s{0,9})?[\[{\s]{1,9}"(?:name|tool|tool_name|tool_calls|function|function_call|action|recipient_name)"\s{0,9}:',
    re.IGNORECASE,
)
"""How a call begins that a model wrote as text, in the forms models know."""

CONTINUES = re.compile(
    r"(?:(?:ok(?:ay)?|alright|great|right|sure|perfect|good|got it)\b\W{0,3})?(?:(?:now|next|then|first|"
    r"so)\b\W{0,3})?"
    r"(?:i['’]ll|i will|i['’]m (?:now )?going to|i am (?:now )?going to|let me|let['’]s)\b(?! summar)"
    r"|(?:では|それでは|続けて|次に|これから|まず)[^。\n]{0,120}ます"
    r"|(?:好的?|那么|现在|接下来|下面|首先|然后)?[，,]?(?:现在|接下来|下面|先)?(?:我(?:现在|来|将|会|先|要|把)|让我)"
    r"|(?:好的?|那么)?[，,]?(?:现在|接下来|下面|首先|下一步)(?:就|先|来|要)?(?:修|改|看|读|运行|跑|写|加|检查|处理|把)"
    r"|(?:(?:ok(?:ay)?|gut|alles klar)\b\W{0,3})?(?:(?:jetzt|nun|dann|als nächstes|zuerst)\b\W{0,3})?"
    r"(?:\w{2,20} ich\b|ich (?:werde|sehe|schaue|lese|prüfe|behebe|korrigiere|passe|ändere|starte|führe|mache|"
    r"\w{2,20}e (?:jetzt|nun|als nächstes|zuerst))\b|lass(?:en sie)? (?:mich|uns)\b)"
    r"|(?:(?:d['’]accord|bien|très bien|ok)\b\W{0,3})?(?:(?:maintenant|ensuite|puis|d['’]abord)\b\W{0,3})?"
    r"(?:je vais\b|je \w{3,20} (?:maintenant|d['’]abord|ensuite)\b|voyons\b|regardons\b)"
    r"|(?:maintenant|ensuite|d['’]abord)\b\W{0,3}j(?:e |['’])\w{3,20}"
    r"|(?:(?:vale|bien|ok)\b\W{0,3})?(?:(?:ahora|primero|luego)\b\W{0,3})?(?:voy a|vamos a|veamos)\b",
    re.IGNORECASE,
)
"""How an answer begins that goes on with the work."""

POLITE = re.compile(
    r"\b(?:let me know|thank you|thanks for|a pleasure|happy to help|look forward|feel free|glad to|vielen dank|"
    r"gerne|freue mich|"
    r"melden sie sich|sag(?:en sie)? (?:mir )?bescheid|merci|gracias|n'hésitez pas)\b"
    r"|よろしくお願い|お知らせください|ありがとうございます|谢谢|感谢|随时告诉|很高兴|请告诉我|감사합니다",
    re.IGNORECASE,
)
ITEM = re.compile(r"\s*(?:[-*+•–]|\d{1,3}[.)])\s")
ENDS = ".!?。！？…:：;；)]}>\"'”’»」』）】|%`*_~/，"
DANGLING = re.compile(
    r"\b(?:the|an?|of|and|or|to|in|with|which|that|because|by|for|from|der|die|das|den|dem|ein|eine|und|oder|mit|"
    r"von|zu|le|la|les|el|"
    r"los|de|du|des|et|y)$|(?:[はがをにの]|しか|から)$|[的和把在与及或从将被]$",
    re.IGNORECASE,
)
"""Words after which no text ends."""

FUNCTION_WORDS = {
    name: frozenset(words.split())
    for name, words in {
        "english": "the and was were is are of to for with that this has have been not it",
        "german": "der das und ist nicht wurde wird für auf ein eine den dem mit sind noch bei",
        "french": "le les des est et une dans pour que pas avec sont il faut sur du",
        "spanish": "el los las es una por para con del y que se está son como no",
        "italian": "il che è per con una sono della dei gli non nel di",
        "portuguese": "os que não uma para com do da em são é ao",
        "dutch": "het een van en niet zijn voor met wordt werd op te",
    }.items()
}
"""Common words by which languages in Latin letters are distinguished."""

WRITINGS = {
    "latin": re.compile(r"[A-Za-zÀ-ɏ]"),
    "cyrillic": re.compile(r"[\u0400-\u04ff]"),
    "greek": re.compile(r"[\u0370-\u03ff]"),
    "hebrew": re.compile(r"[\u0590-\u05ff]"),
    "arabic": re.compile(r"[\u0600-\u06ff]"),
    "devanagari": re.compile(r"[\u0900-\u097f]"),
    "thai": re.compile(r"[\u0e00-\u0e7f]"),
    "korean": re.compile(r"[\uac00-\ud7af]"),
    "kana": re.compile(r"[\u3040-\u30ff]"),
    "han": re.compile(r"[\u3400-\u9fff]"),
}
"""Scripts that are distinguished. Names and paths are Latin everywhere, so a text in another script has both."""

# Sentences and their claims.

BREAK = re.compile(r"(?:(?<=\w\w[.!?])|(?<=[`)\]*\"'/%][.!?]))\s+(?=[^\sa-z])|(?<=[。！？])(?=[^」』）\s])")
HEADING = re.compile(r"\s*(?:#{1,6}\s|\*\*[^*\n]{1,80}\*\*[:：.]?\s*$|[^\n]{1,60}[:：]\s*$)")
LABEL = re.compile(r"[\s*+•–-]{0,9}(?:\d{1,3}[.)]\s)?\*{0,2}([^\W\d][^:：.。\n`]{1,40})[:：.]\*{0,2}\s")
LATER = re.compile(
    r"\b(?:next|to[ -]?do|plan(?:s|ned)?|pending|remaining|upcoming|proposals?|follow[- ]?ups?|optional|after that|"
    r"afterwards|ideas?|"
    r"nächste[rns]?|danach|als nächstes|ausstehend|vorschl\w+|geplant|offen|prochaines?|à faire|siguientes?|"
    r"pendientes?)\b"
    r"|次|これから|今後|予定|残り|下一步|接下来|待办|后续|计划|다음",
    re.IGNORECASE,
)
"""Headings of what is still to be done, and labels such as "next:"."""

PROPOSED = re.compile(
    r"\b(?:should|(?:could|would|might)(?! not\b|n['’]t\b)|consider|propos\w+|suggest\w*|possibly|perhaps|maybe|"
    r"plan(?:s|ned)? to|going to|"
    r"such as|e\.g\.|"
    r"for example|(?:will|to) be (?:added|created|written)|will (?:add|create|write)|sollte\w*|könnte\w*|eventuell|"
    r"vielleicht|"
    r"möglicherweise|etwa ein\w*|geplant|z\. ?b\.|pourrait|devrait|podría|debería)\b"
    r"|のような|予定|新しく|案|べき|つもり|例えば|建议|可以考虑|比如|例如|打算|应该|将要|可能|新建一个",
    re.IGNORECASE,
)
DROPPED = re.compile(
    r"\b(?:reject\w*|abandon\w*|tried|dropped|discarded|history|superseded|failed attempts?|verworfen\w*|"
    r"aufgegeben\w*|versucht\w*|"
    r"abandonn\w+|descartad\w+)\b|不採用|やめた|試し|経過|放弃|否决|弃用|试过|失败的尝试",
    re.IGNORECASE,
)
"""Headings under which superseded values are expected."""

FORMER = re.compile(
    r"\b(?:was|were|had|earlier|formerly|previous(?:ly)?|first|initial(?:ly)?|original(?:ly)?|instead|rather|until|"
    r"before|old|"
    r"used to|still|taken|began|no longer|war(?:en)?|vorher|zuerst|zunächst|anfangs|früher|statt|ursprünglich|"
    r"bisher|noch|alte[rns]?|"
    r"avant|d'abord|antes|al principio)\b|最初|当初|以前|元[のは]|では|だった|之前|原来|起初|原先|曾|旧|太|过",
    re.IGNORECASE,
)
"""Words by which a sentence says that it is about the past."""

FILE = re.compile(
    r"(?<![A-Za-z0-9_.~@/:+-])(?:~|\.{1,2})?/?(?:[A-Za-z0-9_.@+-]{1,100}/){1,40}(?:[A-Za-z0-9_.@+-]{0,99}[A-Za-z0-9_])?"
    r"|(?<![A-Za-z0-9_.~@/-])[A-Za-z0-9_-][A-Za-z0-9_.-]{0,99}\.[A-Za-z]{1,8}(?![A-Za-z0-9_])"
)
EXTENSION = re.compile(
    r"\.(?:py|pyi|js|mjs|cjs|jsx|ts|tsx|go|rs|java|kt|swift|rb|php|pl|lua|cs|fs|c|h|cc|cpp|hpp|m|scala|sh|bash|ps1|"
    r"sql|md|mdx|rst|txt|csv|"
    r"tsv|json|jsonl|toml|yaml|yml|ini|cfg|conf|env|lock|xml|html|htm|css|scss|vue|svelte|ipynb|proto|tf|gradle|mod|sum)$",
    re.IGNORECASE,
)
CODE = re.compile(r"`([^`\s]{3,80})`")
OPEN_NAME = re.compile(r"[*<>{}$…]|\.\.")
"""Marks of a name that stands for several."""

HASH = re.compile(r"\b(?=[0-9a-f]{0,40}\d)(?=[0-9a-f]{0,40}[a-f])[0-9a-f]{7,40}\b")
NUMERAL = re.compile(r"(?<![A-Za-z0-9_.,:/#+-])\d[\d.,]{0,30}")
UNIT = re.compile(
    r"[\s-]?(?:ms|s|sec|seconds?|min|minutes?|h|hours?|days?|[kmg]i?b|bytes?|tokens?|sekunden?|minuten?|stunden?|"
    r"tagen?|secondes?|heures?|"
    r"segundos?|horas?)(?![A-Za-zäöü])|\s?(?:秒|分|時間|日間|件|個|行|倍|小时|分钟|毫秒|天|条|个|次)",
    re.IGNORECASE,
)
ABOUT = re.compile(
    r"(?:\b(?:about|around|approximately|approx|roughly|nearly|almost|over|under|more than|less than|at least|"
    r"at most|up to|some|etwa|"
    r"ca|circa|rund|ungefähr|knapp|gut|über|unter|bis zu|environ|unos|unas)\b|[~≈<>]|約|およそ|ほぼ|约|大约|近|超过|"
    r"不到)\W{0,3}$",
    re.IGNORECASE,
)
NOT_COUNTED = re.compile(r"[/:.-]\d|\s?[年月日%％]|[A-Za-z_]")
"""What follows a part of a date, a time, a ratio, a percentage or a name."""

ANY_NUMBER = re.compile(r"\d+(?:[.,]\d+)*+")
WORD = re.compile(r"[A-Za-z0-9_@+-]+(?:\.[A-Za-z0-9_@+-]+)*+")
TOKEN = re.compile(
    r"[^\W\d_\u3040-\u9fff\uac00-\ud7af]{3,40}|[\u30a0-\u30ff]{2,20}|[\u3400-\u9fff]{1,40}|[\uac00-\ud7af]{2,20}"
)
_COMMON = (
    "the and for with don isn doesn that this from have has had was were are been not but all any its into onto "
    "than then them they you your can will may "
    "must should would could until when where which what who how out off over under again only also just now new "
    "old one two some every "
    "each other anything everything nothing something please make made does did done say said says tell user agent "
    "without before after "
    "der die das und für mit von den dem des ein eine einen einem einer ist sind war wird werden wurde nicht auch "
    "noch nur bei aus auf "
    "bitte jetzt "
    "les des une pour dans par sur est sont pas que qui avec tout tous toute cette rien peux peut maintenant "
    "los las una por para con del que como todo todos esta ahora puede puedes"
)
COMMON = frozenset(_COMMON.split())
"""Words that say nothing about the subject."""

ENDING = re.compile(r"(?:ies|ing|ied|ed|es|s|en|er|ez|ées?|és?|e|y)$")

# What the log knows better.

REVOKES = re.compile(
    r"\b(?:forget (?:what|that|about|the)|never mind|no longer (?:need|appl|hold|necessary|required)\w*|"
    r"no need to .{1,60} any ?more|"
    r"don['’]t have to .{1,60} any ?more|withdraw|revoke|scrap that|changed my mind|i take (?:that|it) back|"
    r"ignore what i said|"
    r"vergiss|vergessen sie|(?:gilt|gelten) (?:ab jetzt |ab sofort |jetzt |damit )?nicht mehr|nicht mehr nötig|"
    r"(?:musst|müssen|brauchst|brauchen) .{1,60}nicht mehr|(?:nehme|ziehe) .{1,60} zurück|hinfällig|"
    r"hebe .{1,60} auf|(?:kannst|können|darfst|dürfen) .{1,60}(?:streichen|vergessen|weglassen|ignorieren)|"
    r"you (?:can|may) (?:drop|skip|ignore|scrap|strike) (?:the|that|my)|you (?:can|may) (?:now\b|.{1,40} now\b|"
    r".{1,40} from now on)|"
    r"(?:kannst|darfst) (?:du )?(?:jetzt|ab jetzt|ab sofort)|ab (?:jetzt|sofort) (?:darfst|kannst)|"
    r"(?:tu peux|vous pouvez) (?:maintenant|désormais|.{1,40} (?:maintenant|désormais)|oublier|laisser tomber)|"
    r"oublie[zr]?|laisse[zr]? tomber|(?:n['’]est|n['’]a) plus (?:nécessaire|besoin|valable)|"
    r"(?:ya )?puedes? (?:ahora|.{1,40} ahora|olvidar)|olvida|ya no (?:hace falta|es necesario|aplica))\b"
    r"|取り消|撤回し|なかったことに|忘れてください|解除し|無効に|不用(?:再|管|了)|不必再|不再(?:需要|适用|要求)|"
    r"取消|作废|收回|撤销|취소",
    re.IGNORECASE,
)
"""Words by which a user takes back what was said."""

RELEASED = re.compile(
    r"\b(?:withdr\w+|revok\w+|lifted|cancel\w*|dropped|superseded|allowed|permitted|free|no longer|earlier|at first|"
    r"original\w*|"
    r"initial\w*|previous\w*|is over|welcome|aufgehoben|zurückgenommen|widerrufen|nicht mehr|zunächst|anfangs|"
    r"früher\w*|hinfällig|"
    r"erlaubt|darf|dürfen|inzwischen|mittlerweile|plus|désormais|maintenant|permise?s?|autoris\w*|levée?s?|au départ|"
    r"ya no|ahora|permitid[oa]|retirad[oa]|al principio)\b"
    r"|取り消|撤回|解除|廃止|もう|最初|当初|以前|今は|不再|取消|撤销|收回|解除|作废|起初|原先|最初|之前|已经|可以",
    re.IGNORECASE,
)
BINDS = re.compile(
    r"\b(?:not|n['’]t|never|no|only|must|always|wait|until|before|without|ask|first|nicht|nie(?:mals)?|kein\w*|nur|"
    r"muss|müssen|immer|erst|"
    r"warte\w*|vorher|ohne|bevor|soll\w*|bitte|please|ne|jamais|toujours|pas|rien|nunca|siempre|nada)\b|[\u3040-\u30ff\u4e00-\u9fff]",
    re.IGNORECASE,
)
PERMITS = re.compile(
    r"\b(?:may|can(?! (?:you|we|i)\b)|allowed|permitted|free to|fine to|darf|dürfen|kann|können|erlaubt|peut|"
    r"peuvent|puede[ns]?)\b"
    r"|てよい|てもよい|ても構わ|てかまわ|可能|許可|可以|允许|随意|能够",
    re.IGNORECASE,
)
LIMITS = re.compile(
    r"\b(?:not|n['’]t|never|no|nothing|unless|only|ask\w*|approv\w+|except|if|once|after|without|until|nicht|"
    r"kein\w*|nur|außer|ohne|wenn|"
    r"sobald|erst|nach|vorher|freigegeben|genehmigt\w*|sauf|salvo|solo)\b|ない|なければ|だけ|のみ|相談|まで|場合|不|"
    r"除非|只|仅|先|须|必须|才|禁止",
    re.IGNORECASE,
)
INJECTED = re.compile(
    r"\b(?:ignore|disregard|forget|override) (?:(?:all|any|the|your|of|these) ){0,4}(?:previous|prior|above|earlier|"
    r"existing|other|system) "
    r"(?:instruction|rule|prompt|order|message|direction|guideline)s?"
    r"|\b(?:note|notice|message|instructions?|attention|request)s? (?:to|for) (?:(?:all|any|the) ){0,3}(?:ai|llm|"
    r"coding|language) ?"
    r"(?:assistants?|agents?|models?|bots?)"
    r"|\b(?:note|notice|message|instructions?|attention|request)s? (?:to|for) (?:(?:all|any|the) ){0,3}"
    r"(?:automation|automated (?:agents?|tools?|systems?)|bots?|llms?)\b"
    r"|\b(?:ai|llm|coding) (?:assistants?|agents?|models?)(?: reading this)?(?:[:,]| must| should| that| who)"
    r"|\b(?:automated agents?|bots|llms) (?:must|should|shall|have to|are required)\b"
    r"|\b(?:ia|(?:agents?|assistants?) (?:ia|de code|automatiques?)|robots?) (?:doi(?:t|vent)|devraient)\b"
    r"|\b(?:note|consigne|message|instruction)s? (?:à|pour|aux?) (?:l['’]|les |tous les )?"
    r"(?:ia|agents? (?:ia|de code|automatiques?)|assistants? ia|robots?)\b"
    r"|\b(?:ignore[zr]?|oublie[zr]?) .{0,30}(?:instructions|consignes|règles)\b"
    r"|\b(?:nota|aviso|instrucci(?:ón|ones)|mensaje) (?:para|a) (?:la |las |los )?(?:ia|agentes? de ia|bots?)\b"
    r"|\bignor[ae]n? .{0,30}(?:instrucciones|reglas)\b"
    r"|ki-(?:assistent|agent|modell|system)\w*.{0,40}(?:[:!]|müssen|sollen|bitte|gilt|anweisung)"
    r"|(?:hinweis|anweisung|nachricht)\w* (?:an|für) (?:alle )?(?:ki|ai)\b|ignorier\w* .{0,40}(?:anweisung|"
    r"regel|vorgabe)\w*"
    r"|(?:anweisung|regel|vorgabe)\w* .{0,30}ignorieren"
    r"|ai ?(?:アシスタント|エージェント|モデル).{0,20}(?:指示|命令|お願い|:|：)|(?:指示|ルール|規則).{0,12}無視"
    r"|(?:ai|人工智能|智能) ?(?:助手|代理|模型|编程助手).{0,12}(?:[:：，,]|请|必须|应|注意)"
    r"|(?:忽略|无视|忘记).{0,16}(?:指令|指示|规则|要求|约束)",
    re.IGNORECASE,
)
"""Text that addresses the assistant, in the output of a tool."""

DECLINES = re.compile(
    r"\b(?:not|n['’]t) (?:come )?(?:from|by) (?:you|the user)\b|\bi (?:(?:do|will|did) not|don['’]t|won['’]t|didn['’]t) "
    r"(?:follow|obey|act on) (?:it|that|this|them)\b"
    r"|nicht von (?:ihnen|dir)\b|\b(?:be)?folge ich nicht\b"
    r"|\bne (?:vient|viennent) pas de (?:vous|toi|l['’]utilisateur)|"
    r"\bje n['’]en tiens pas compte\b|\bje ne (?:la|le|les) suis pas\b"
    r"|\bno (?:viene|vienen) (?:de usted|de ti|del usuario)\b|\bno (?:lo|la|los|las) sigo\b"
    r"|従いません|従わない|ユーザーの指示ではな|不会?(?:照做|遵循|理会|执行它)|不是(?:您|你|用户)(?:的|要求)",
    re.IGNORECASE,
)
"""Words by which an assistant refuses what the output of a tool asks for."""

INSTRUCTION_FILE = re.compile(
    r"\b(?:AGENTS|CLAUDE|GEMINI|CONTRIBUTING|copilot-instructions)\.md\b|\.(?:cursor|windsurf)rules\b"
)
"""Files whose text is meant for assistants."""

REPORTS = re.compile(
    r"\b(?:hidden|comments?|contain\w*|inject\w*|t(?:old|ells)|asks|asked|addressed|ignored|not follow\w*|untrusted|"
    r"malicious|versteckt\w*|"
    r"kommentar\w*|enthält|enthielt|befolgt|ignoriert|fordert\w*|aufforder\w*|angeblich\w*|eingeschleust\w*|"
    r"contient|contenait|conseill\w*|demand(?:e|ait|aient|ent)|ignorée?s?|pas (?:été )?suivie?s?|contredit|"
    r"contiene|contenía|pide|pedía|ignorad[oa]s?|not from (?:you|the user))\b"
    r"|含まれ|混ざ|従って|従わ|無視した|書かれて|埋め込|包含|隐藏|注入|没有(?:执行|理会|照做|遵循|听从)|未(?:执行|"
    r"理会|遵循|采纳)|不予|夹带|要求ai|写给",
    re.IGNORECASE,
)
RUN_COUNTS = re.compile(
    r"^.{0,200}\b\d+ (?:passed|failed|passing|failing|tests?|examples?|failures?|errors?)\b.{0,200}$"
    r"|^.{0,20}\btests?(?: run)?: \d.{0,200}$|^test result: .{0,200}$",
    re.IGNORECASE | re.MULTILINE,
)
RUN_COUNT = re.compile(
    r"\b\d+ (?:passed|failed|passing|failing|tests?|examples?|failures?|errors?|skipped|ignored)\b"
    r"|\b(?:tests?(?: run)?|passed|failed|failures?|errors?|skipped): \d+",
    re.IGNORECASE,
)
RUN_FAILS = re.compile(
    r"\b[1-9]\d* (?:failed|failing|failures?|errors?)\b|\b(?:[Ff]ailed|[Ff]ailures?|[Ee]rrors?): [1-9]|\bFAILED\b"
)
TESTS = re.compile(
    r"\b(?:pytest|tests?|vitest|jest|mocha|gotestsum|rspec|tox|nox|ctest|phpunit|check)\b", re.IGNORECASE
)
PASSES = re.compile(
    r"\b(?:all|every|whole|full)\b.{0,40}\b(?:tests?|specs?|examples|checks|suite)\b.{0,24}\b(?:pass(?:es|ing)?|"
    r"green|succeeds?)\b"
    r"|\b(?:tests?|specs?|examples|checks|suite)\b (?:(?:now|all|are|is) ){0,3}(?:pass(?:es|ing)?|green|succeed)\b"
    r"|\b(?:tou(?:s|te)|les|la)\b.{0,30}\b(?:tests?|suite)\b.{0,24}\b(?:passent?|réussi(?:t|ssent)|verte?s?|"
    r"au vert)\b"
    r"|\b(?:tod[oa]s?|los|las)\b.{0,30}\b(?:tests?|pruebas)\b.{0,24}\b(?:pasan|pasa|verdes?|superad[oa]s)\b"
    r"|\b(?:alle|sämtliche)\b.{0,40}tests?\b.{0,24}\b(?:bestehen|grün|laufen|erfolgreich|durch)"
    r"|\btests? (?:(?:sind|laufen|alle|jetzt) ){0,3}(?:grün|durch)\b"
    r"|テスト.{0,14}(?:すべて|全部|全て|全件).{0,8}(?:通|成功|パス)|(?:すべて|全部|全て)の?テスト.{0,8}(?:通|成功|パス)"
    r"|(?:所有|全部).{0,8}测试.{0,8}通过|测试.{0,8}(?:全部|全都|均已?|都已?)通过",
    re.IGNORECASE,
)
FAILS = re.compile(
    r"\b(?:fail\w*|but|except|until|initially|at first|after that|then|fehl\w*|aber|außer|rot|anfangs|zunächst|"
    r"échou\w*|échecs?|sauf|mais|au départ|d'abord|ensuite|puis|falla\w*|salvo|pero|al principio)\b"
    r"|失敗|残|最初|当初|失败|但|未通过|起初|之前",
    re.IGNORECASE,
)
"""Words by which a sentence on passing tests says that others fail, or when they passed."""

NAMES_FAILURE = re.compile(r"fail|error|✗|:\d", re.IGNORECASE)
"""A line of a test run that may name what failed, with its place."""

CHANGED = re.compile(
    r"(?:\b(?:was|were|been|is now|are now) |[`:–—]\s)(?:changed|edited|rewritten|updated|modified|adapted|"
    r"extended|patched|"
    r"replaced|converted|switched)\b"
    r"|(?:\b(?:a|ont) été |[`:–—]\s)(?:modifi|chang|adapt|remplac|corrig|édit)ée?s?\b|\b(?:réécrite?s?|"
    r"mis(?:es?)? à jour)\b"
    r"|\b(?:modificad|cambiad|actualizad|reescrit|adaptad|editad)[oa]s?\b"
    r"|[`:–—]\s(?:geändert|angepasst|bearbeitet|umgeschrieben|erweitert|umgestellt|ersetzt|aktualisiert)\b"
    r"|\b(?:wurden?|worden|ist|sind)\b.{0,80}\b(?:geändert|angepasst|bearbeitet|umgeschrieben|erweitert|umgestellt|"
    r"ersetzt|aktualisiert)\b"
    r"|(?:書き換え|変更し|修正し|編集し|更新し)(?:た|ている|てある)|(?:已|被|已经)(?:修改|改写|更新|重写|改成|改为|"
    r"编辑)|(?:修改|改写|重写|更新)了",
    re.IGNORECASE,
)
DELETED = re.compile(
    r"\W{0,3}(?:was|were|is|has been|have been|wurden?|ist|a été|ont été|fue|は|を)?\W{0,2}"
    r"(?:(?:since|then|later|again|wieder|inzwischen|danach|depuis|ensuite)\s)?"
    r"(?:deleted|removed|gelöscht|entfernt|supprimée?s?|eliminad[oa]s?|borrad[oa]s?|削除|已?经?被?(?:删除|删掉|移除))",
    re.IGNORECASE,
)
UNCHANGED_FILE = re.compile(
    r"\W{0,4}(?:(?:was|is|has|have|were|wurde|ist|blieb|n['’]a|fue)\s)?(?:(?:not|never|nicht|nie|pas|"
    r"no)\s(?:been\s|été\s)?"
    r"(?:changed|modified|edited|touched|verändert|geändert|angefasst|bearbeitet|modifiée?|touchée?|modificad[oa])\b"
    r"|(?:unchanged|untouched|unmodified|unverändert|inchangée?|sin cambios)\b|(?:没有?|未)(?:被)?(?:改动|修改|变)"
    r"|は?(?:変更|修正)(?:なし|していない))",
    re.IGNORECASE,
)
"""What follows the name of a file that is said to be as it was."""

UNCHANGED = re.compile(
    r"\b(?:not|n['’]t|never|no|nicht|nie|kein\w*|un(?:changed|touched|edited|modified|verändert\w*|berührt\w*|"
    r"angetastet\w*))\b|ない|なかった|ません|未|没|不",
    re.IGNORECASE,
)
REMOVES = re.compile(r"\b(?:rm|unlink|del|mv|git rm|git mv|rmdir|Remove-Item)\b|\*\*\* Delete File", re.IGNORECASE)
WRITES = re.compile(
    r">|\b(?:sed|perl|awk|tee|cp|mv|rm|python3?|node|patch|git (?:apply|checkout|restore|stash|merge|rebase|pull|"
    r"revert)|write|open)\b"
)
RESTORES = re.compile(r"\bgit (?:checkout|restore|stash|reset|revert)\b")
DELEGATES = re.compile(r"task|agent|delegate", re.IGNORECASE)
IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{1,60}")
HUMPS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
_TYPES = (
    "int integer float double str string bool const let var val static final time seconds second minute minutes "
    "hour hours millis value "
    "default size count number public private export usize f64 f32 i32 i64 u16 u32 u64 duration from secs self "
    "return assert settings"
)
TYPES = frozenset(_TYPES.split())
PAIR = re.compile(
    r"([A-Za-zÄÖÜäöüß][\wäöüß-]{2,40}|[\u30a0-\u30ff]{2,20}|[\u4e00-\u9fff]{2,8})"
    r"(?:`|\*\*|\s|[=:：<>~]|は|を|が|の|は?現在|数|为|是|设为|改为|of|is|set|to|at|on|steht|liegt|auf|von|ist|bei|est|à|es|"
    r"seconds?|int|float){0,4}?"
    r"\s?v?(\d+(?:\.\d+)?)(?![\w]*[./]\d)"
)
"""A word and the number right behind it."""

SETS = re.compile(r"(?:改为|改成|设为|设成|调为|调成|调到|提高到|降到|降为|升到|保持|[为是成到从用共了取])$")
"""Verbs between a Chinese noun and its number."""

UNKNOWN = "not found in the record"
ONLY_OUTPUT = "this stands in the output of a tool; the user did not ask for it"
"""What is added behind a sentence."""

NOT_ENGLISH = "(The user does not write in English. Answer in the language of the user's messages.)"
"""What is added behind an English summary."""

ENDS_EARLY = "(This summary may end early.)"
"""What is added behind a summary that seems to end within a sentence."""

MARK = re.compile(rf" \({UNKNOWN}: [^()\n]{{0,400}}\)")
