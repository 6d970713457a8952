//! Stop words: words without information about the subject of a text, question words included.

use std::collections::HashSet;
use std::sync::LazyLock;

/// Folded stop words of Czech and Slovak.
const SLAVIC: &str = "
a aby ac ako aj ale anebo ani ano asi az ale alebo ake aky aka akych akeho akemu akou akym akej \
b bez beze bude budem budes budete budeme budou budu budes by byl byla byli bylo byly byt bych bychom byste bol bola boli bolo \
ci cim co coz cosi cela cely cele \
da dal dale dalsi dalsie dalsich do ho jeho jej jeji jejich jejim jemu jen jenom jenz jez ji jich jim jimi jine jiny jiz \
dnes jsem jses jsi jsme jsou jste ja je jeste jestli jestlize ich ich im iba ine iny jedna jedno jeden \
k kam kazdy kde kdo kdy kdyz ke kolik kolika komu koho kym kem ktera ktere ktereho kteremu kterem kteri kterou ktery kterych kterym kterymi \
kedy ked aku koho komu kolko kolkych kto ktora ktore ktoreho ktorej ktorom ktorou ktori ktory ktorych ktorym ktorymi ktoru kvoli \
ma mame maji mate mam mas maju mezi medzi mi mit mne mnou moc mohl mohla mohou moje muj muze muzu muzeme mat moze mozu mozem mozeme \
musi musim musime museji musia musel musela \
my na nad nam nami nas nase nasi nebo nej nektery neni nez nic nich nim nimi niz no nekdo niekto nikdo nikto neco nieco \
o od ode on ona oni ono ony \
po pod podle podla pokud potom pouze prave pre pred pres preto pri pro proc protoze preco prostrednictvim prostrednictvom proto prvni \
s se sa si sice smi smie smeji smu sme som ste su sve svoje svou svuj svym svych svoj svojej svojho svojou \
ta tak takze take taky tam te tedy ten tento teto tim timto to toho tohle tom tomto tomu tu tuto ty tyto ti tieto tejto tych tym tymto toto tohto tak tiez tu tato \
u uz v vam vami vas vase ve vice viac vo vsak vy v vo vsetko vsetky vsetci vsechny vsechno z za zda ze zo zeby zpet ci \
casto odkdy odkedy dokdy dokedy dlouha dlouhe dlouhy dlouhou dlha dlhe dlhy dlhu kolikaty kolikateho nejdele najdlhsie jak jaka jake jaky jakeho jakou jakych jakym jake jakem jakemu kudy odkud dokdy odkedy kam odkial cim ceho cemu cej \
dlouho dlho casto cini cinia tvori existuje existuji plati platia nachazi nachadza uvedeno uvedene stanoveno stanovene urceno rika hovori pise \
prosim rekni povedz vysvetli ukaz najdi najit napis chci chcem chtel zajima zaujima vedet vediet dle dokument dokumenty dokumentu dokumentov dokumentech dokumentoch \
v dobe pripade pripadne pripad vuci voci behem pocas treba potreba mozno lze mozne da daji deje stane stava nastane trva trvat";

/// Folded stop words of English.
const ENGLISH: &str = "
a about above after again all also am an and any are as at be because been before being below between both but by \
can could did do does doing done down during each few for from further often had has have having he her here hers him his how \
i if in into is it its itself just long many me might more most much must my no nor not now of off on once only or other our ours out over own \
please given per same shall she should so some such than that the their theirs them then there these they this those through to too under until up upon us \
very was we were what when where which while who whom whose why will with within would you your yours \
tell show find explain give say says said according document documents get gets got happens happen take takes \
s t re ve ll d m need needs there";

/// Folded stop words of German, except words with content in another language (`man`, `war`, `hat`).
const GERMAN: &str = "
aber alle allem allen aller alles als am auch auf aus bei beim bin bis bist da dabei dadurch dafur dagegen damit danach daran \
darauf daraus darf darin darum das dass davon davor dazu dein dem den denen denn der deren des dessen dich die dies diese diesem \
diesen dieser dieses dir doch dort du durch durfen ein eine einem einen einer eines er es etwa etwas euch fur gegen gibt \
habe haben hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer ihres im ins ist ja jede jedem jeden jeder jedes \
kann kannst kein keine keinem keinen keiner konnen konnte mein meine mich mir mit muss mussen nach nicht noch nur ob oder ohne \
lang langer sehr sein seine seinem seinen seiner seit sich sie sind sofern sogar solche soll sollen sondern sonst sowie uber um und uns unser unter \
viel viele vielen vom von vor wann warum was weil welche welchem welchen welcher welches wem wen wenn wer werden wessen wie wieviel wieso wird wo \
woher wohin worauf wozu zu zum zur zwar zwischen lange hoch gilt gelten steht stehen bitte sag sage sagt sagen zeig erst erste ersten erster erstes mal umfasst umfassen enthalt enthalten \
gehort gehoren besteht bestehen stellt wofur womit wodurch worin woran woraus woruber worum wovon wovor wogegen weshalb weswegen \
inwiefern inwieweit";

/// Question words and other words without content, in all languages. Longer lists are unnecessary: a
/// remaining rare word only matches nothing.
static STOP: LazyLock<HashSet<&'static str>> =
    LazyLock::new(|| [SLAVIC, ENGLISH, GERMAN].into_iter().flat_map(str::split_whitespace).collect());

/// Returns true if a folded word is a stop word in any of the languages.
#[must_use]
pub fn is_stop(folded: &str) -> bool {
    STOP.contains(folded) || (folded.chars().count() == 1 && !folded.chars().all(|c| c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_words_are_stop_words() {
        for word in ["kolik", "kolko", "kdo", "kto", "jaka", "aka", "how", "who", "when"] {
            assert!(is_stop(word), "{word}");
        }
        for word in ["najem", "vypoved", "notice", "period"] {
            assert!(!is_stop(word), "{word}");
        }
    }
}
