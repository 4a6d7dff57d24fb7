"""Diminutives: given names that stand for another, in English and in Spanish.

They complete the package nicknames, which has hardly any Spanish ones, and neither Nell for Eleanor nor Billie for William. A
diminutive may stand for several names, such as Bella for Isabelle and Arabella, which remain different names.
"""

from collections import defaultdict
from collections.abc import Mapping
from collections.abc import Set as AbstractSet

# Each name with its diminutives, in the spelling of `text.words`.
_ENGLISH = """
    adelaide: addie; agatha: aggie; agnes: aggie nessie; alberta: berta
    alexander: alick lex sasha xander zander; alexandra: lexi lexie sasha xandra
    alfred: alf alfie freddie; amelia: milly; andrew: andie; angela: ange; ann: nanny; anna: nanny
    annabel: bella belle; anthony: toni; antoinette: nettie netty; arthur: artie
    augustus: gussie; barbara: barb; beatrice: beattie; beatrix: bea trix trixie; benedict: benny
    benjamin: benji benjie; bernadette: bernie detta; bridget: bridey; caitlin: katie; carolina: lina
    caroline: callie lina; cassandra: cass; catherine: cat cate cath kitty; cecilia: sissy
    cecily: cissy; charles: charley chas chaz chip; charlotte: charley charlie lotty; christian: christy
    christina: chrissie christie; christine: chrissie christie; christopher: christie kris topher
    daniel: dannie; david: davie davy; deborah: debs; dennis: den; desmond: des
    dorothea: dolly dory dot dottie thea; dorothy: dodie dory; douglas: dougie duggie; edith: edy
    edmund: teddy; edward: neddy; eleanor: ella lena nell nellie norah; elinor: ellie nell nellie nora
    elisabeth: bess beth betsy betty libby liza lizzie; eliza: liza lizzie
    elizabeth: bessy bette buffy lilibet tetty; ellen: ellie nelly; emily: emmie milly; emma: emmie
    esther: hettie hetty; evelyn: evie; ferdinand: ferdy; florence: florrie flossie; franklin: frankie
    frederic: fred freddie fritz; frederica: freddie; gabrielle: gabbie; george: geordie
    georgina: georgie gina; gertrude: trudie; gillian: gill jill jilly; gregory: gregg
    gwendolen: gwen gwennie; gwendolyn: gwennie; harriet: hatty hettie hetty; helen: nell nellie nelly
    helena: nelly; henrietta: ettie hattie hettie hetty netty; hester: essie hettie; hugh: huey hughie
    irene: renie; isaac: zac zack; isabel: bel izzy; isabella: bel izzy; isabelle: izzy; james: jemmy
    jane: jenny; janet: jennie jenny netta; jean: jeanie; jeannette: jeannie nettie; jemima: jem mimi
    jeremiah: jem; jeremy: jerry; jerome: jerry; jessica: jessy; joan: joanie; john: jackie johnnie
    jonathan: jonty; justin: jus; katherine: kath kathie katie kitty; kathleen: kath kathie kitty
    kathryn: katy kit kitty; kimberly: kimmie kimmy; laura: laurie; laurence: laurie; lavinia: vinnie
    lawrence: laurie; leopold: leo poldie; letitia: letty tisha; lilian: lil lily; lillian: lillie lily
    louis: lew; louisa: lula lulu; louise: lulu; lucy: lu; lydia: liddy lyddie; mabel: mab
    madeleine: maddie maddy; margaret: greta mag mamie margo margot meggie; margery: madge margie
    maria: mitzi; marjorie: madge marge; martha: matty pattie; mary: minnie moll mollie poll pollie
    mathilda: tilda tilly; matilda: mattie pattie patty tilda tillie; matthew: mat
    maurice: mo moe morrie morry; mercy: mercie merry; mildred: millie; millicent: millie
    mortimer: morty; moses: mo moe; natalie: nat nattie; nicola: nicky nikki; oliver: olly
    olivia: livvy livy; oscar: ossie; oswald: ossie oz ozzie; pamela: pammy; patricia: paddy
    peter: petey; philip: flip; philippa: flip pip pippa; phyllis: phyl phyllie; prudence: pru
    rebecca: beckie; richard: hick rickie; robert: bobbie rab robbie; roberta: bobby; rodney: roddy
    roland: rollie roly; rosalie: rosie; rosalind: ros rosie roz; rosamund: ros rosie roz
    rosanna: rosie; rose: rosy; rosemary: rosie rosy; samantha: sammie; samuel: sammie
    sara: sadie sally; sarah: sallie; sebastian: bastian; simon: sim simmy; sophia: sophy; stanley: stan
    stephen: steenie stevie; stuart: stew; susan: suzy; susanna: sue sukey susie suzy
    suzanna: sue suzie suzy; suzanne: suzie suzy; sylvia: sylvie; tabitha: tibby; terence: tel
    theodora: teddie teddy theo; theodore: dore teddie; thomas: tam tommie; thomasina: tamsin tommie
    trevor: trev; valentine: val; veronica: ronni; victor: vick; victoria: vick; violet: vi
    virginia: ginnie jinny; vivian: vivie; walter: wat wattie; wilfred: freddie wilf
    wilhelmina: billie willa; william: billie liam wills; winifred: win wynne
"""
_SPANISH = """
    adolfo: dolfo fito; adriana: adri; agustin: cucho tino; agustina: agus tina; alberto: berto beto
    alejandra: ale; alejandro: ale jandro jano; alfonso: fonso poncho; alfredo: fredo fredy
    alicia: licha; ana: anita; anastasio: tacho; andres: andresito; angel: angelito gelo
    antonia: tona toni; antonio: toni tonin tono; armando: mando; arturo: turi turo
    asuncion: asun chona; aurelio: yeyo; bartolome: bartolo; beatriz: bea beti ticha; benito: beni
    benjamin: benja mincho; bernardo: nardo; candelaria: cande; carlos: carlito carlitos
    carmen: carmela carmelita carmencita menchu; carolina: caro; catalina: cata lina
    cecilia: ceci chila; celestino: tino; concepcion: chona concha conchi conchita; constantino: tino
    consuelo: chelo; cristina: cris; cristobal: tobal; dolores: lola loli lolita; domingo: mingo
    eduardo: edu guayo lalo; eleazar: lalo; elena: leni nena; emilio: milo; encarnacion: encarna encarni
    enrique: kike quico quique rique; enriqueta: queta; ernesto: neto; esperanza: espe pelancha
    estefania: estefi fani; eusebio: chebo; ezequiel: cheque; faustino: tino; federico: fede quico
    felipe: pipe; fernanda: nanda; fernando: fer nando; florencia: lencha; florencio: lencho
    francisca: curra paca pancha panchita paquita quica
    francisco: chisco cisco curro fran frasco kiko paco panchito pancho paquito quico; gabriel: gabo
    gabriela: gabi; gertrudis: tula; gilberto: beto; gonzalo: chalo; graciela: chela; gregoria: goya
    gregorio: goyo; guadalupe: lupe lupita pita; guillermina: guille mina; guillermo: guille guillo memo
    gustavo: gus tavo; hector: teto; heriberto: beto heri; hipolito: polo; hortensia: tencha
    humberto: beto; ignacio: inaki nachito nacho; ines: inesita; inocencio: chencho
    isabel: chabela chavela isabelita; isidoro: isi; isidro: chilo; jaime: jaimito
    javier: javi javito xavi; jesus: chucho chus chuy chuyito; jesusa: chucha
    joaquin: chimo joaco quino; joaquina: quina; jorge: coque jorgito; jose: chepe pepe pepito
    josefa: chepa fina pepa pepita; josefina: chepina fina pepa; juan: juancho juanito; juana: juanita
    julian: julianito; laura: laurita; leonardo: leo; leopoldo: leo poldo polo; leticia: leti ticha
    lorenza: lencha; lorenzo: lencho; lourdes: lourditas lulu; lucia: luci
    luis: huicho lucho luisito wicho; luisa: luisita; magdalena: magda
    manuel: lolo manolito manolo manu; manuela: manola manolita; marcela: chela; marcelo: chelo
    margarita: mago marga; maria: mari mariquita maruja; mariano: marianito; mario: marito
    mercedes: meche merceditas merche; miguel: migue miguelin miguelito; moises: moi; montserrat: montse
    narciso: chicho; natividad: nati; nicolas: colas; norberto: beto; octavio: tavo; pablo: pablito
    patricia: pati; patricio: pato; pedro: pedrito perico perucho; petra: petrita; pilar: pili piluca
    purificacion: puri; rafael: fael falo felo rafa rafita; rafaela: fela; raimundo: mundo
    ramon: monchi moncho ramoncito; raul: rulo; refugio: cuca cuco; ricardo: richi; roberto: berto beto
    rodolfo: fito rodo rudy; rodrigo: rodri ruy; rogelio: roge; rosa: rosita
    rosario: charito charo chayito chayo; salvador: chava chavo salva; santiago: chago
    sebastian: bastian chano sebas; sergio: checo; socorro: soco; sofia: chofi sofi
    soledad: chole cholita sole; susana: susi; teodoro: teo; teofilo: teo; teresa: tere teresita
    tomas: tomasito; trinidad: trini; vicenta: chenta; vicente: chente; victoria: toya viki
    yolanda: yoli
"""


def _table(*texts: str) -> dict[str, AbstractSet[str]]:
    table = defaultdict[str, set[str]](set)
    for entry in ";".join(texts).replace("\n", ";").split(";"):
        name, _, diminutives = entry.partition(":")
        if name.strip():
            table[name.strip()].update(diminutives.split())
    return {**table}


DIMINUTIVES: Mapping[str, AbstractSet[str]] = _table(_ENGLISH, _SPANISH)
