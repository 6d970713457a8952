# Texty webové aplikace v češtině.

# Kolem každé stránky
skip = Přejít k obsahu
menu = Nabídka
account = Účet
new-conversation = Nová konverzace
conversations = Konverzace
no-conversations = Zatím tu nic není. Položte první otázku.
in-progress = Vzniká odpověď
keys = Klíče API
machine = Stroj
credits = Kredity
sign-out = Odhlásit se

# Přihlášení
sign-in = Přihlásit se
sign-in-lead = Rozhovory s vašimi dokumenty.
sign-in-hint = Nemáte účet nebo heslo? Obraťte se na správce služby.
sign-in-ended = Vaše přihlášení skončilo. Přihlaste se znovu.
sign-in-denied = E-mail nebo heslo není správné.
sign-in-provider-unavailable = Poskytovatel identity neodpovídá. Zkuste to později.
sign-in-provider-refused = Poskytovatel identity vás nepřihlásil.
sign-in-provider-invalid = Toto přihlášení už neplatí. Začněte znovu.
sign-in-email-not-verified = Poskytovatel identity váš e-mail neověřil.
sign-in-bound-to-another = K účtu s vaším e-mailem se přihlašuje někdo jiný. Obraťte se na správce služby.
sign-in-email-not-confirmed = E-mail účtu s vaší adresou si zvolil jeho vlastník a nikdo jej nepotvrdil. Obraťte se na správce služby.
sign-in-no-account = Účet s vaším e-mailem neexistuje. Obraťte se na správce služby.
sign-in-throttled = { $seconds ->
    [one] Příliš mnoho pokusů. Zkuste to znovu za sekundu.
    [few] Příliš mnoho pokusů. Zkuste to znovu za { $seconds } sekundy.
   *[other] Příliš mnoho pokusů. Zkuste to znovu za { $seconds } sekund.
}
email = E-mail
password = Heslo

# První účet
welcome = Vítejte
welcome-lead = Vytvořte první účet této služby.
welcome-create = Vytvořit účet
welcome-hint = Budete správcem: uvidíte a můžete měnit všechny účty. Licence platí rok.
welcome-bad-email = Toto není e-mailová adresa.
welcome-bad-password = Heslo má 8 až 1 024 bajtů na jednom řádku.
welcome-not-invited = Odkaz už byl použit nebo vypršel. Přihlaste se. Pokud služba ještě nemá správce, spusťte ji znovu a získáte nový odkaz.

# Otázky
home-title = Co byste chtěli vědět?
home-lead = Ptejte se na své dokumenty. Odpovědi uvádějí, z čeho vycházejí.
ask-label = Vaše otázka
ask-placeholder = Položte otázku …
ask-blank = Nejprve napište otázku.
ask-conversation-gone = Tato konverzace už neexistuje. Otázkou můžete začít novou.
follow-up-placeholder = Zeptejte se dál …
model = Model
choices = Další volby
choices-next = Volby
choices-agent = Agent
choices-usual-agent = Výchozí
choices-skills = Dovednosti
choices-jurisdictions = Jurisdikce
choices-more-skills = Další lze uvést v rozhraní: { $count }.
model-degraded = často selhává
model-down = neodpovídá
web = Hledat na webu
web-pages = Číst webové stránky
send = Odeslat
stop = Zastavit

# Konverzace
conversation-more = Další
delete = Smazat konverzaci
delete-sure = Smazat tuto konverzaci se všemi odpověďmi?
earlier = Starší zprávy
later = Novější zprávy
you-asked = Zeptali jste se
edit = Upravit
retry = Zkusit znovu
retry-elsewhere = Jiným modelem
cancel = Zrušit
version = Verze
version-previous = Předchozí verze
version-next = Další verze
answer = Odpověď
working = Pracuji …
connection-lost = Spojení se přerušilo. Navazuje se znovu …
reasoning = Úvaha
agent = Agent { $name }
sources = Zdroje
source-page = strana { $page }
source-slide = snímek { $slide }
source-sheet = list { $sheet }
source-section = oddíl { $section }
source-file = soubor { $file }
source-row = řádek { $row }
source-rows = řádky { $rows }
source-line = řádek { $line }
source-lines = řádky { $lines }
source-unproven = nedoloženo
source-proven = Úryvek větu dokládá.
source-unproven-quote = Nedoloženo: v úryvku nejsou citovaná slova „{ $text }“.
source-unproven-number = Nedoloženo: v úryvku není číslo { $text }.
source-unproven-date = Nedoloženo: v úryvku není datum ({ $text }).
source-unproven-name = Nedoloženo: v úryvku není jméno { $text }.
source-unproven-negation = Nedoloženo: úryvek říká opak.
source-unproven-quantity = Nedoloženo: úryvek uvádí u „{ $text }“ jinou hodnotu, jednotku nebo mez.
source-unproven-participant = Nedoloženo: úryvek to říká o někom jiném, než je „{ $text }“.
source-unproven-time-order = Nedoloženo: úryvek uvádí jiné pořadí v čase (před, po).
source-unproven-obligation = Nedoloženo: úryvek uvádí jinou povinnost, dovolení nebo zákaz.
source-unproven-words = Nedoloženo: úryvek má s větou málo společného.
cited-passage = Citovaný úryvek
cited-changed = Soubor se od odpovědi změnil. Takto úryvek zněl.
cited-gone = Soubor už ve složkách není: byl smazán nebo přejmenován. Odpověď si citovaný úryvek uchovala.
cited-back = Zpět k odpovědi
found-more = další: { $count }
source-open = Otevřít zdroj
tool-search = Prohledání dokumentů
tool-read = Čtení dokumentu
tool-view = Prohlédnutí stránek
tool-list = Výpis složky
tool-find = Hledání souborů
tool-write = Zápis souboru
tool-edit = Úprava souboru
tool-shell = Spuštění příkazu
tool-attached-files = Čtení přiložených souborů
tool-ask-user = Otázka pro vás
tool-web-search = Hledání na webu
tool-web-fetch = Čtení webové stránky
tool-skill = Otevření dovednosti
tool-other = Použití nástroje { $name }
answer-stopped = Zastaveno. Co je napsáno, zůstává.
answer-complete = Odpověď je hotová.
answer-cost = { $count ->
    [one] Cena: jeden kredit
    [few] Cena: { $count } kredity
   *[other] Cena: { $count } kreditů
}
answer-model-unavailable = Model není dostupný. Zeptejte se znovu později.
answer-model-rejected = Model požadavek odmítl.
answer-model-key-refused = Poskytovatel modelu nepřijímá klíč této služby. Příčinou není vaše otázka: dejte prosím vědět správci.
answer-model-unpaid = Účet této služby u poskytovatele modelu nemá kredit. Příčinou není vaše otázka: dejte prosím vědět správci.
answer-agent-unavailable = Zvolený agent už není k dispozici. Zeptejte se znovu s jiným.
answer-context-too-long = Konverzace je pro model příliš dlouhá. Začněte novou.
answer-insufficient-credits = Kredity účtu nestačí na zbytek odpovědi.
answer-spending-limit = Klíč, kterým byla otázka položena, vyčerpal svůj limit.
answer-machine-failed = Stroj účtu selhal. Zeptejte se znovu později.
answer-too-many-steps = Odpověď měla příliš mnoho kroků.
answer-output-exhausted = Odpověď není úplná: model dosáhl limitu svého výstupu.
answer-model-refused = Model odmítl odpovědět.
answer-reply-overdue = Odpověď byla ukončena, protože na něco čekala a včas to nedostala. Pokud ji ještě potřebujete, zeptejte se znovu.
answer-interrupted = Odpověď byla ukončena, protože služba byla obnovena ze zálohy. Pokud ji ještě potřebujete, zeptejte se znovu.
answer-internal = Služba selhala. Zeptejte se znovu později.

# Historie
history = Historie
history-all = Všechny konverzace
history-search = Hledat v konverzacích
history-find = Hledat
history-indexing = Starší konverzace se do hledání teprve přidávají. Za chvíli hledejte znovu.
history-none = Pro „{ $words }“ se nic nenašlo.
history-pin = Připnout
history-unpin = Odepnout
history-pinned = připnuto
history-rename = Přejmenovat
history-title = Název
history-through = Založena klíčem
history-more = Další konverzace
print = Tisk
print-hint = Stránku vytisknete nebo uložíte jako PDF příkazem prohlížeče pro tisk.
print-cut = Starší zprávy jsou vynechány. Celá konverzace je v exportu do Markdownu.

# Soubory
files = Soubory
files-home = Soubory
files-path = Cesta
files-choose = Vybrat soubory
files-upload = Nahrát
files-uploaded = Nahráno
files-cancel = Zrušit nahrávání
files-cancel-all = Zrušit všechna nahrávání
files-cancelled = Nahrávání bylo zrušeno.
files-waiting = Čeká
picture-enlarge = Zvětšit obrázek
picture-close = Zavřít
picture-full-size = Skutečná velikost
files-drop = Pusťte soubory a nahrají se sem
files-new-folder = Nová složka
files-folder-name = Název složky
files-make-folder = Vytvořit
files-upload-folder = Nebo nahrajte složku
files-archive = Stáhnout jako ZIP
files-download = Stáhnout
files-delete = Smazat
files-delete-sure = Smazat „{ $name }“ natrvalo?
files-delete-folder-sure = Smazat složku „{ $name }“ se vším, co v ní je?
files-more = Další možnosti: { $name }
files-choose-one = Vybrat { $name }
files-choose-all = Vybrat vše
files-chosen = Vybráno: { $count }
files-ask = Zeptat se
files-ask-chosen = Zeptat se
files-empty = Zatím tu nic není. Nahrajte dokumenty a pak se na ně ptejte.
files-count = { $count ->
    [one] Jedna položka
    [few] { $count } položky
   *[other] { $count } položek
}
files-rename = Přejmenovat
files-move = Přesunout
files-new-name = Nový název
files-destination = Přesunout do složky
files-destination-note = Cesta ke složce, například /uploads. Nic se v ní nepřepíše.
files-delete-chosen-sure = Smazat to všechno natrvalo? Složky se smažou se vším, co v nich je.
files-renamed = Přejmenováno.
files-moved = Přesunuto: { $count }
files-deleted = Smazáno: { $count }
files-choose-first = Nejprve vyberte soubory nebo složky.
files-choose-fewer = Najednou lze vybrat nejvýše { $count } souborů a složek.
files-into-itself = Složku nelze přesunout do sebe samé. Vyberte jinou složku.
files-no-folder = Taková složka neexistuje. Vyberte existující.
files-search = Hledat podle názvu
files-find = Hledat
files-sort = Pořadí
files-sort-name = Název od A do Z
files-sort-name-down = Název od Z do A
files-sort-date-down = Od nejnovějších
files-sort-date = Od nejstarších
files-sort-size-down = Od největších
files-sort-size = Od nejmenších
files-none-found = Žádný název tu neobsahuje „{ $words }“.
files-search-cut = Může jich být více než těchto { $count }. Zadejte více slov nebo hledejte v některé z vnořených složek.
files-pages = Stránky složky
files-previous = Předchozí stránka
files-next = Další stránka
files-no-preview = Tento soubor se tu nezobrazuje. Stáhněte si ho.
files-cut = Zobrazena je jen část. Celý soubor si stáhněte.
files-none-chosen = Nejprve vyberte soubor.
files-too-many = Najednou lze nahrát nejvýše { $count } souborů.
files-broken-off = Nahrávání se přerušilo. Zkuste to znovu.
files-proxied = Proxy před službou odmítá požadavky této velikosti. Limit může zvýšit správce.
files-empty-file = Soubor je prázdný.
files-exists = Soubor nebo složka s tímto názvem už existuje.
files-bad-name = Tento název nelze použít: obsahuje lomítko nebo zpětné lomítko, je to „.“ nebo „..“, nebo je vyhrazený.
files-no-name = Tento název nelze použít: je prázdný.
files-long-name = Tento název nelze použít: je delší než 255 bajtů.
files-full = Úložiště je plné. Nejprve něco smažte.
files-over-quota = Soubor je větší než povolená velikost celého úložiště.
files-disk-full = Disk této služby je plný. Obraťte se na jejího správce.
files-archive-too-large = Tato složka je na archiv příliš velká. Stáhněte její složky po jedné.
indexing-pending = Zatím nepřečteno
indexing-progress = Čte se: { $percent } %
indexing-partial = Přečteno zčásti
indexing-unreadable = Nelze přečíst
unread-encrypted = Je zašifrovaný a potřebuje heslo.
unread-no-text = Nemá žádný text; může to být sken, jehož text se nerozpoznal.
unread-unknown-form = Tento formát není podporován.
unread-too-large = Je příliš velký.
unread-broken = Je poškozený.
unread-too-slow = Čtení trvá příliš dlouho.
unread-too-much-memory = Čtení potřebuje příliš mnoho paměti.
unread-image = Je to obrázek. Použijí ho jen modely, které vidí.
unread-missing = Už neexistuje.
unread-long = Je delší než část, která se z dokumentu čte.
unread-scanned-pages = Některé stránky jsou skeny, jejichž text se nerozpoznal.
unread-images = Text některých obrázků v něm se nepřečetl ({ $causes }).
unread-images-too-large = příliš velké: { $count }
unread-images-too-slow = trvaly příliš dlouho: { $count }
unread-images-too-many = nad limit počtu: { $count }
unread-images-failed = nerozpoznatelné: { $count }
unread-inner-files = Některé soubory v něm nelze přečíst.
unread-label-encrypted = Zašifrováno
unread-label-no-text = Bez textu
unread-label-unknown-form = Neznámý formát
unread-label-too-large = Příliš velký
unread-label-broken = Poškozeno
unread-label-too-slow = Trvá příliš dlouho
unread-label-too-much-memory = Příliš mnoho paměti
unread-label-image = Obrázek
attach = Přiložit soubory
attach-waiting = Otázka se odešle, jakmile budou soubory nahrány.
attach-remove = Odebrat

# Klíče API
keys-lead = Pomocí klíče se programy ptají vaším jménem.
keys-docs = Jak je používat
keys-new = Vytvořit nový klíč
keys-name = Název
keys-name-hint = K čemu slouží
keys-may = Oprávnění
keys-all = vše
keys-life = Platnost
keys-life-licence = po dobu licence
keys-life-days = { $count ->
    [one] jeden den
    [few] { $count } dny
   *[other] { $count } dní
}
keys-limit = Limit útraty v kreditech
keys-limit-hint = žádný
keys-make = Vytvořit klíč
keys-made = Klíč „{ $name }“ je připraven
keys-made-note = Zkopírujte si ho teď. Znovu se nezobrazí.
keys-made-before = Klíč „{ $name }“ už byl vytvořen
keys-made-before-note = Zobrazil se jen jednou. Pokud ho nemáte, zneplatněte ho a vytvořte jiný.
keys-first-question = Položte první otázku
keys-example-question = Co je v mých dokumentech?
keys-created = Vytvořen
keys-used = Naposledy použit
keys-never = nikdy
keys-expires = Platí do
keys-expired = Platnost skončila
keys-spent = Utraceno
keys-revoke = Zneplatnit
keys-revoke-named = Zneplatnit { $name }
keys-credits = Kredity, 30 dní
keys-revoke-sure = Programy s tímto klíčem okamžitě přestanou fungovat.
keys-none = Nejsou tu žádné klíče.
keys-bad-name = Klíč musí mít název o nejvýše 256 bajtech a limit útraty alespoň 1.
keys-bad-limit = Limit útraty musí být celé číslo.
keys-bad-life = Zvolte, jak dlouho klíč platí.
keys-no-permission = Zvolte alespoň jedno oprávnění.
permission-read = číst konverzace
permission-ask = pokládat otázky
permission-files = používat soubory
permission-machine = spouštět a zastavovat stroj
copy = Kopírovat
copy-code = Kopírovat kód
copied = Zkopírováno

# Stroj
machine-lead = Vaše dokumenty se čtou a příkazy spouštějí ve vašem vlastním stroji, odděleném od sítě.
machine-running = Běží
machine-running-note = Je připraven na otázky. Když se nepoužívá, sám se zastaví.
machine-stopped = Zastaven
machine-stopped-note = Spustí ho otázka. Vaše soubory zůstávají.
machine-starting = Spouští se …
machine-stopping = Zastavuje se …
machine-changing-note = Stránka se sama obnovuje.
machine-start = Spustit stroj
machine-stop = Zastavit stroj
machine-none = Tento účet nemá stroj.
machine-driver = Ovladač
machine-limits = limity: { $limits }
machine-isolation = Oddělení
machine-isolation-sandbox = Sandbox na jádře hostitele: jmenné prostory, vlastní kořen, seznam povolených systémových volání, limity
machine-isolation-kernel = Vlastní jádro Linuxu, neprivilegovaný proces v sandboxu na hostiteli
machine-isolation-vm = Virtuální stroj, jehož proces je neprivilegovaný v sandboxu na hostiteli
machine-disk = Úložiště
machine-memory = Paměť
machine-files = { $count ->
    [one] jeden soubor nebo složka
    [few] { $count } soubory a složky
   *[other] { $count } souborů a složek
}
machine-reason = Poslední změna
machine-reason-start = Bylo vyžádáno spuštění
machine-reason-stop = Bylo vyžádáno zastavení
machine-reason-answer = Odpověď začala nebo skončila
machine-reason-found-running = Běžel dál, když se služba znovu spustila
machine-reason-found-stopped = Ještě neběžel
machine-reason-idle = Nepoužíval se
machine-reason-idle-memory = Nepoužíval se a zabíral mnoho paměti
machine-reason-quota = Disk je téměř plný a soubory přesahují kvótu účtu
machine-reason-start-failed = Spuštění se nezdařilo
machine-reason-lost = Sám skončil nebo přestal odpovídat
machine-reason-stop-failed = Zastavení se nezdařilo

# Kredity
credits-available = K dispozici
credits-reserved = { $amount } rezervováno pro vznikající odpovědi
credits-spent = Utraceno
credits-span = { $count ->
    [one] za poslední den
    [few] za poslední { $count } dny
   *[other] za posledních { $count } dní
}
credits-spans = Období
credits-days-count = { $count ->
    [one] Jeden den
    [few] { $count } dny
   *[other] { $count } dní
}
credits-licence = Licence do
credits-by-day = Podle dne
credits-by-model = Podle modelu
credits-share = Podíl
credits-steps-column = Kroky
credits-tokens = Tokeny
credits-no-model = ostatní
credits-none = Zatím se nic neutratilo.
credits-by-key = Podle klíče
credits-days = Den po dni
credits-no-key = Aplikace
credits-most = nejvýše { $amount } za den
credits-amount = kredity: { $amount }
credits-days-utc = Dny začínají o půlnoci UTC
ledger = Účetní kniha
ledger-lead = Každý pohyb kreditů, od nejnovějšího. Krok odpovědi rezervuje nejvíc, co může stát. Z toho se utratí jeho cena a zbytek se uvolní.
ledger-csv = Stáhnout jako CSV
ledger-time = Čas
ledger-kind = Pohyb
ledger-key = Klíč
ledger-grant = Připsáno
ledger-reserve = Rezervováno
ledger-settle = Utraceno
ledger-release = Uvolněno
ledger-revoked-key = zneplatněný klíč
ledger-pages = Stránky účetní knihy
ledger-newer = Novější
ledger-older = Starší

# Nastavení
settings = Nastavení
channels = Komunikační kanály
licence = Licence
licence-until = Platí do { $day }
licence-days = { $count ->
    [one] zbývá jeden den
    [few] zbývají { $count } dny
   *[other] zbývá { $count } dní
}
licence-over = skončila
licence-ended = Licence tohoto účtu skončila. Můžete dál číst, exportovat a mazat, co v něm je. K otázkám je potřeba licence: obraťte se na správce této služby.
licence-note = Až licence skončí, přestanou fungovat klíče API a nebude možné se ptát. Vznikající odpovědi se dokončí. Dál se můžete přihlásit a vše číst, exportovat a mazat.
account-new-email = Nový e-mail
account-email-note = Slouží k přihlášení.
account-change-email = Změnit e-mail
account-email-changed = E-mail je změněn.
account-bad-email = Toto není e-mailová adresa.
account-email-taken = Tento e-mail má jiný účet.
account-present-password = Současné heslo
account-new-password = Nové heslo
account-again = Nové heslo znovu
account-password-note = Nejméně 8 znaků. Změna vás všude jinde odhlásí. Klíče API fungují dál.
account-change-password = Změnit heslo
account-password-changed = Heslo je změněno a ostatní přihlášení skončila.
account-not-the-same = Nová hesla se neshodují.
account-wrong-password = Současné heslo není správné.
account-bad-password = Heslo má 8 až 1 024 bajtů na jednom řádku.
account-no-password = Přihlašujete se u poskytovatele identity. O heslo nebo jiný e-mail požádejte správce služby.
account-sessions = Přihlášení
account-sessions-note = Kde jste přihlášeni. Odhlášení všude ukončí i toto přihlášení; klíče API fungují dál.
account-this-session = zde
account-unknown-browser = Neznámý prohlížeč
account-signed-in = Přihlášeno
account-last-used = naposledy použito
account-end-session = Odhlásit: { $browser }
account-session-ended = Přihlášení bylo ukončeno.
account-sign-out-everywhere = Odhlásit se všude
account-delete = Smazat účet
account-delete-note = Vše, co k tomuto účtu patří, bude nenávratně odstraněno.
account-delete-ends = Klíče API a přihlášení skončí hned, rozepsané odpovědi se zastaví. Konverzace, soubory, stroj a zbylé kredity nenávratně zmizí. Zůstanou jen pohyby kreditů, beze jména. Zálohy služby mohou data obsahovat, dokud je nenahradí novější.
account-delete-sure = Rozumím, že nic nepůjde obnovit.
account-delete-unsure = Potvrďte, že nic nepůjde obnovit.
account-deleted = Účet je smazán.

# Stránky správců
operator = Správce
operator-accounts = Účty
operator-find = E-mail nebo identifikátor
operator-open = Otevřít
operator-vendors = Poskytovatelé modelů
operator-no-vendors = Žádný poskytovatel není nastaven; odpovídá vestavěná čtečka.
operator-address = Adresa
operator-state = Stav
operator-up = odpovídá
operator-down = neodpovídá
operator-since = Od
operator-models = Modely
operator-id = Identifikátor
operator-role = Role
operator-owner = Vlastník
operator-last-day = Nový poslední den
operator-licence-day = Poslední den licence
operator-set = Nastavit licenci
operator-amount = Další kredity
operator-grant = Připsat kredity
operator-delete-email = E-mail účtu pro potvrzení
operator-delete-other = Účet nebyl smazán: byl zadán jiný e-mail.
operator-delete-own = Vlastní účet smažte na jeho stránce.
operator-bad-day = Poslední den licence musí být datum.
operator-bad-amount = Počet kreditů musí být celé číslo.
operator-new = Nový účet
operator-credits = Kredity
operator-password = Heslo, pokud se nenastaví později
operator-create = Založit účet
operator-email-taken = Účet s tímto e-mailem už existuje.
operator-access = Přístup
operator-password-ends = Nové heslo ukončí všechna přihlášení tohoto účtu.
operator-set-password = Nastavit heslo
operator-make-operator = Udělat správcem
operator-make-owner = Odebrat roli správce
operator-not-own = Vlastní heslo změňte na stránce svého účtu. Vlastní roli změní jiný správce.
operator-audit = Protokol událostí
operator-when = Kdy
operator-who = Kdo
operator-what = Co
operator-subject = Předmět
operator-detail = Podrobnosti
operator-older = Starší záznamy
audit-create-account = Založení účtu
audit-delete-account = Smazání účtu
audit-set-email = Nastavení e-mailu
audit-set-role = Nastavení role
audit-set-licence = Nastavení licence
audit-grant-credits = Připsání kreditů
audit-set-password = Nastavení hesla
audit-change-password = Změna hesla
audit-change-email = Změna e-mailu
audit-bind-identity = Připojení identity
audit-sign-in = Přihlášení
audit-sign-out = Odhlášení
audit-sign-out-everywhere = Odhlášení všude
audit-create-key = Vytvoření klíče
audit-revoke-key = Zneplatnění klíče
audit-refused-key = Odmítnutí klíče
audit-start-machine = Spuštění stroje
audit-stop-machine = Zastavení stroje
audit-reset-machine = Reset stroje
audit-run-in-machine = Příkaz ve stroji
audit-backup = Záloha
audit-retry-job = Zopakování úlohy
audited-by-password = Heslo
audited-by-provider = Poskytovatel identity
audited-command-line = příkazový řádek, uid { $uid }
audited-key = klíč { $key }
operator-plugins = Pluginy
operator-plugin = Plugin
operator-skills = Dovednosti
operator-agents = Agenti
operator-servers = Servery MCP
operator-notices = Problémy
operator-no-notices = V pluginech nebyly nalezeny žádné problémy.
operator-place = Místo
operator-effect = Následek
operator-problem = Problém
operator-skipped = vynecháno
operator-remark = poznámka
operator-more-notices = { $count ->
    [one] A ještě jeden.
    [few] A ještě { $count }.
   *[other] A ještě { $count }.
}
operator-settings = Platná nastavení
operator-settings-note = Mění se v konfiguraci a platí po restartu. Tajné hodnoty se nezobrazují.
operator-no-settings = Nic není nastaveno; všude platí výchozí hodnoty.
operator-key = Klíč
operator-value = Hodnota
operator-origin = Původ
operator-defaults = Výchozí hodnoty

# Chyby
error-title = To se nepodařilo
error-title-not-found = Nenalezeno
error-home = Zpět na začátek
error-not-found = Tato stránka neexistuje, nebo není vaše.
error-forbidden = To není dovoleno.
error-foreign-origin = Požadavek přišel z jiného webu a nebyl proveden.
error-conversation-busy = Předchozí otázka se ještě zodpovídá. Počkejte na odpověď, nebo ji zastavte.
error-insufficient-credits = Kredity na otázku nestačí. O další požádejte správce služby.
error-no-machine = Tento účet nemá stroj, takže na otázky nelze odpovídat.
error-machine-not-running = Stroj neběží. Nejprve ho spusťte.
error-model-unavailable = Právě není dostupný žádný model. Zkuste to později.
error-too-large = To je příliš velké.
error-rate-limited = Příliš mnoho požadavků. Zkuste to za chvíli.
error-unavailable = Služba právě není dostupná. Zkuste to za chvíli.
error-internal = Služba selhala. Zkuste to později.
error-invalid = Služba to odmítla: { $reason }

# Dokumenty, které ukazuje stroj
document-page = Strana { $page }
document-slide = Snímek { $page }
document-sheet = List { $page }
document-section = Oddíl { $page }
document-file = Soubor { $page }
document-pages = Strany dokumentu
document-range = Strany { $pages }
document-range-files = Soubory { $pages }
document-text = Text strany
document-previous = Zpět
document-next = Dále
document-no-machine = Dokumenty ukazuje váš stroj, a ten neběží. Spusťte ho a načtěte stránku znovu, nebo soubor stáhněte.
