use proptest::prelude::*;

use super::*;

/// Returns the elements of a formula, without their wrapper.
fn formula_elements(tex: &str) -> String {
    let Some(html) = tex_to_mathml(tex, false) else { return "refused".to_owned() };
    let html = html.strip_prefix("<math><semantics><mrow>").unwrap_or(&html);
    html.split("</mrow><annotation").next().unwrap_or_default().to_owned()
}

#[test]
fn formulas_are_drawn() {
    for (tex, expected) in [
        ("x", "<mi>x</mi>"),
        ("a_1^2", "<msubsup><mi>a</mi><mn>1</mn><mn>2</mn></msubsup>"),
        (
            "f''(x)",
            "<msup><mi>f</mi><mrow><mo>′′</mo></mrow></msup><mo stretchy=\"false\">(</mo><mi>x</mi><mo stretchy=\"false\">)</mo>",
        ),
        ("\\frac12", "<mfrac><mn>1</mn><mn>2</mn></mfrac>"),
        ("\\sqrt[3]{x}", "<mroot><mrow><mi>x</mi></mrow><mrow><mn>3</mn></mrow></mroot>"),
        ("= -b", "<mo>=</mo><mo form=\"prefix\">−</mo><mi>b</mi>"),
        ("a - 1.5", "<mi>a</mi><mo>−</mo><mn>1.5</mn>"),
        ("a < b \\& c", "<mi>a</mi><mo>&lt;</mo><mi>b</mi><mi>&amp;</mi><mi>c</mi>"),
        (
            "\\sum_{i=1}^n i",
            "<munderover><mo>∑</mo><mrow><mi>i</mi><mo>=</mo><mn>1</mn></mrow><mi>n</mi></munderover><mi>i</mi>",
        ),
        ("\\int_0^1", "<msubsup><mo>∫</mo><mn>0</mn><mn>1</mn></msubsup>"),
        ("\\int\\limits_0", "<munder><mo>∫</mo><mn>0</mn></munder>"),
        ("\\sin x", "<mi>sin</mi><mo>\u{2061}</mo><mspace width=\"0.1667em\"></mspace><mi>x</mi>"),
        (
            "\\sin(x)",
            "<mi>sin</mi><mo>\u{2061}</mo><mo stretchy=\"false\">(</mo><mi>x</mi><mo stretchy=\"false\">)</mo>",
        ),
        ("\\mathbb{R} \\mathbf{x}", "<mrow><mi>ℝ</mi></mrow><mrow><mi>𝐱</mi></mrow>"),
        ("I_{\\mathrm{enc}}", "<msub><mi>I</mi><mrow><mi>enc</mi></mrow></msub>"),
        ("\\mathrm{d}x", "<mrow><mi mathvariant=\"normal\">d</mi></mrow><mi>x</mi>"),
        (
            "\\text{if $x$ is <}",
            "<mrow><mtext>if&nbsp;</mtext><mi>x</mi><mtext>&nbsp;is&nbsp;&lt;</mtext></mrow>",
        ),
        ("\\not= x", "<mo>=\u{338}</mo><mi>x</mi>"),
        ("\\hat y", "<mover accent=\"true\"><mi>y</mi><mo stretchy=\"false\">ˆ</mo></mover>"),
        ("x \\tag{1}", "<mi>x</mi><mrow><mspace width=\"2em\"></mspace><mtext>(1)</mtext></mrow>"),
        ("\\textcolor{red}{x}", "<mrow><mi>x</mi></mrow>"),
        ("\\boxed{x}", "<mrow class=\"boxed\"><mrow><mi>x</mi></mrow></mrow>"),
        (
            "\\left( x \\middle| \\frac1y \\right]",
            "<mrow><mo stretchy=\"true\" symmetric=\"true\" form=\"prefix\">(</mo><mi>x</mi>\
             <mo stretchy=\"true\" symmetric=\"true\" form=\"infix\" lspace=\"0.1667em\" rspace=\"0.1667em\">|</mo>\
             <mfrac><mn>1</mn><mi>y</mi></mfrac><mo stretchy=\"true\" symmetric=\"true\" form=\"postfix\">]</mo></mrow>",
        ),
        (
            "\\begin{pmatrix} 1 & 2 \\\\ 3 \\end{pmatrix}",
            "<mrow><mo>(</mo><mtable class=\"matrix\"><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr>\
             <mtr><mtd><mn>3</mn></mtd></mtr></mtable><mo>)</mo></mrow>",
        ),
        (
            "\\begin{array}{r|l} a & b \\\\ \\hline c \\\\[2pt] \\end{array}",
            "<mrow><mtable class=\"matrix\"><mtr><mtd class=\"right\"><mi>a</mi></mtd><mtd class=\"left barred\"><mi>b</mi></mtd></mtr>\
             <mtr class=\"ruled\"><mtd class=\"right\"><mi>c</mi></mtd></mtr></mtable></mrow>",
        ),
        (
            "a \\\\ b",
            "<mtable class=\"gathered\"><mtr><mtd><mi>a</mi></mtd></mtr><mtr><mtd><mi>b</mi></mtd></mtr></mtable>",
        ),
    ] {
        assert_eq!(formula_elements(tex), expected, "{tex}");
    }
}

#[test]
fn tex_to_mathml_draws_common_formulas() {
    for tex in [
        r"x = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}",
        r"\int_{0}^{\infty} e^{-x^2} \, dx = \frac{\sqrt{\pi}}{2}",
        r"\begin{aligned} a &= b + c \\ &= d \end{aligned}",
        r"\begin{align*} a &= b + c \\ d &= e \end{align*}",
        r"f(x) = \begin{cases} 1 & \text{if } x > 0, \\ 0 & \text{otherwise} \end{cases}",
        r"\text{EBITDA} = 1{,}200\,\text{Kč} \times 5\%",
        r"\hat{y} = \beta_0 + \beta_1 x + \varepsilon",
        r"\operatorname*{arg\,max}_{x \in \mathcal{X}} f(x)",
        r"\lim_{n \to \infty} \sum_{i=1}^n \frac{1}{i}",
        r"\underbrace{a+b}_{\text{sum}} \overset{\text{def}}{=} \overbrace{c}^{n}",
        r"\left\lfloor \frac{n}{2} \right\rfloor + \left\|x\right\|_2 + \left.\frac{df}{dx}\right|_{x=0}",
        r"P(A \mid B) = \frac{P(B \mid A)\,P(A)}{P(B)}",
        r"\bigl( x \bigr) \Big| y \biggr]",
        r"\xrightarrow[n\to\infty]{d} \mathcal{N}(0, \sigma^2)",
        r"\oint_C \mathbf{B}\cdot d\mathbf{l} = \mu_0 I_{\mathrm{enc}}",
        r"\sum_{\substack{0<i<m \\ 0<j<n}} P(i,j)",
        r"\dfrac{1}{2} \cdot \cancel{x} \equiv 3 \pmod{7}",
        r"\boxed{\; \overline{AB} \perp \overrightarrow{CD} \;}",
        r"{}^{14}_{6}\mathrm{C} \rightleftharpoons \mathrm{H_2O}",
        r"\displaystyle \binom{n}{k} = \frac{n!}{k!(n-k)!}",
        r"\boldsymbol{\beta} = (\mathbf{X}^\top \mathbf{X})^{-1} \mathbf{X}^\top \mathbf{y}",
        r"\sin^2\theta + \cos^2\theta = 1",
        r"|x| \le \|x\|_\infty, \quad \forall x \in \mathbb{R}^n \setminus \{0\}",
    ] {
        assert_ne!(formula_elements(tex), "refused", "{tex}");
    }
}

#[test]
fn tex_to_mathml_refuses_unknown_tex() {
    for tex in [
        r"\href{javascript:alert(1)}{x}",
        r"\unknown",
        r"\def\a{b}",
        "{x",
        "x}",
        r"\left( x",
        r"\begin{matrix} x",
        r"\begin{matrix} x \end{pmatrix}",
        r"\begin{unknown} x \end{unknown}",
        "a & b",
        "x^1^2",
        "x_",
        "^",
        r"\frac{1}",
        r"\",
        "a\u{0}b",
        &"x".repeat(TEX_MAX_BYTES + 1),
        &"{".repeat(100),
        &format!("{}x{}", "{".repeat(DEPTH_MAX + 1), "}".repeat(DEPTH_MAX + 1)),
        &r"\sqrt".repeat(800),
        &r"\frac a".repeat(500),
        &r"\left(".repeat(600),
        &r"\begin{matrix}".repeat(200),
    ] {
        assert!(tex == "^" || formula_elements(tex) == "refused", "{tex}: {}", formula_elements(tex));
    }
}

#[test]
fn the_deepest_formula_needs_little_stack() {
    let small_stack = std::thread::Builder::new().stack_size(512 * 1024);
    let deepest = || {
        for (open, close) in [
            ("{", "}"),
            ("\\frac{1}{", "}"),
            ("\\sqrt[3]{", "}"),
            ("\\left(", "\\right)"),
            ("\\begin{matrix}", "\\end{matrix}"),
            ("\\text{$", "$}"),
            ("\\hat ", ""),
            ("x^{", "}"),
        ] {
            let nested =
                |depth: usize| formula_elements(&format!("{}y{}", open.repeat(depth), close.repeat(depth)));
            let deepest = (1..=DEPTH_MAX).take_while(|depth| nested(*depth) != "refused").last();
            assert!(deepest.is_some(), "{open}");
            assert_eq!(nested(DEPTH_MAX + 1), "refused", "{open}");
        }
    };
    small_stack.spawn(deepest).expect("a thread").join().expect("a test");
}

/// Checks that MathML is balanced, and has known elements and attributes only.
fn check_mathml(html: &str) -> Result<(), String> {
    const ELEMENTS: &str = "math semantics annotation mrow mi mo mn mtext mspace msub msup msubsup munder mover munderover mfrac \
        msqrt mroot mphantom mtable mtr mtd";
    const ATTRIBUTES: &str = "display encoding class stretchy symmetric form lspace rspace minsize maxsize movablelimits accent \
        mathvariant linethickness displaystyle width";
    let mut open = Vec::new();
    for piece in html.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').ok_or_else(|| format!("an open tag: {piece}"))?;
        if text.contains('>') {
            return Err(format!("a bare sign: {text}"));
        }
        if let Some(name) = tag.strip_prefix('/') {
            if open.pop() != Some(name) {
                return Err(format!("not balanced: {tag}"));
            }
            continue;
        }
        let (name, attributes) = tag.split_once(' ').unwrap_or((tag, ""));
        for attribute in attributes.split("\" ").filter(|attribute| !attribute.is_empty()) {
            let (key, value) = attribute.split_once("=\"").ok_or_else(|| format!("an attribute: {tag}"))?;
            let plain = |c: char| c.is_ascii_alphanumeric() || " .-/".contains(c);
            if !ATTRIBUTES.split(' ').any(|known| known == key)
                || !value.trim_end_matches('"').chars().all(plain)
            {
                return Err(format!("an attribute: {tag}"));
            }
        }
        if !ELEMENTS.split(' ').any(|known| known == name) {
            return Err(format!("an element: {tag}"));
        }
        open.push(name);
    }
    if open.is_empty() { Ok(()) } else { Err(format!("not closed: {open:?}")) }
}

/// Generates TeX of the tokens that this reads, and of some others.
fn tex_strategy() -> impl Strategy<Value = String> {
    const TOKENS: &str = r#"\frac \sqrt \sqrt[3] \left( \right) \left. \right| \middle| { { } } ^ _ & \\ \begin{matrix} \end{matrix}
        \begin{aligned} \end{aligned} \begin{cases} \end{cases} \begin{array}{c|r} \end{array} \hline \text{ \mathrm{ \mathbb R \sum
        \int \limits \substack{ \operatorname{ \operatorname* \hat \vec \overbrace \underbrace \color{red} \textcolor{blue} \boxed
        \tag{1} \label{x} \href{javascript:x} \not \big( \Bigg \hspace{1em} \\[2pt] # % $ ~ ' '' < > " 1 2. .5 a b é 中 𝑥 [ ] ( ) |
        \| \{ \} \binom \xrightarrow[a] \overset \underset \prime \phantom \pmod \bmod \lim \to \infty \displaystyle \, \; \! \Gamma
        \sin \cr \end \begin \left \right <script> &lt; </math> --> \mathcal{B} \cancel"#;
    let token = prop::sample::select(TOKENS.split_whitespace().collect::<Vec<_>>());
    prop::collection::vec((token, prop::bool::ANY), 0..50).prop_map(|tokens| {
        let text = tokens.iter().flat_map(|(token, is_apart)| [*token, if *is_apart { " " } else { "" }]);
        text.collect::<String>()
    })
}

fn property_config() -> ProptestConfig {
    let cases = std::env::var("PROPTEST_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(2000);
    ProptestConfig { cases, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(property_config())]

    #[test]
    fn tex_to_mathml_safe_for_formulas(tex in tex_strategy(), is_closed in prop::bool::ANY) {
        let open = tex.matches('{').count().saturating_sub(tex.matches('}').count());
        let tex = if is_closed { format!("{tex}{}", "}".repeat(open)) } else { tex };
        if let Some(html) = tex_to_mathml(&tex, true) {
            prop_assert!(check_mathml(&html).is_ok(), "{:?} of {tex} in {html}", check_mathml(&html));
            prop_assert!(html.len() < 200 * (tex.len() + 2), "{} of {}", html.len(), tex.len());
        }
    }

    #[test]
    fn tex_to_mathml_safe_for_texts(tex in ".{0,60}") {
        if let Some(html) = tex_to_mathml(&tex, false) {
            prop_assert!(check_mathml(&html).is_ok(), "{:?} of {tex} in {html}", check_mathml(&html));
        }
    }
}
