//! The commands of TeX for one symbol or one name.

/// A symbol, by the way in which it is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Symbol {
    /// A letter or a symbol like one, such as `α` and `∞`.
    Identifier(&'static str),
    /// An operator or a relation.
    Operator(&'static str),
    /// A bracket, which does not grow by itself.
    Fence(&'static str),
    /// A sum and the like, with limits below and above it.
    Sum(&'static str),
    /// An integral, with limits beside it.
    Integral(&'static str),
    Function(&'static str),
    /// A name with limits below it.
    Limit(&'static str),
    /// A space, by its width.
    Space(&'static str),
    /// A command that is not shown.
    Nothing,
}

/// Names with their symbols, and the way in which the symbols are set.
type Table = (&'static str, fn(&'static str) -> Symbol);

/// Returns the symbol of a command, without its backslash.
pub(super) fn find_symbol(name: &str) -> Option<Symbol> {
    let tables: [Table; 9] = [
        (GREEK, Symbol::Identifier),
        (IDENTIFIERS, Symbol::Identifier),
        (OPERATORS, Symbol::Operator),
        (ARROWS, Symbol::Operator),
        (FENCES, Symbol::Fence),
        (SUMS, Symbol::Sum),
        (INTEGRALS, Symbol::Integral),
        (LIMITS, Symbol::Limit),
        (SPACES, Symbol::Space),
    ];
    let function = || FUNCTIONS.split(' ').find(|known| *known == name).map(Symbol::Function);
    let hidden = || NOT_SHOWN.split(' ').find(|known| *known == name).map(|_| Symbol::Nothing);
    let kind = tables.iter().find_map(|(table, kind)| find_in_table(table, name).map(kind));
    kind.or_else(function).or_else(hidden)
}

/// Returns the bracket of a character after `\left`, `\right`, `\middle` or `\big`. The bracket of `.` is empty.
pub(super) fn find_delimiter(character: &str) -> Option<&'static str> {
    if character == "." {
        return Some("");
    }
    find_in_table(DELIMITERS, character)
}

/// Returns the bracket of a command in such a place, without its backslash.
pub(super) fn command_delimiter(name: &str) -> Option<&'static str> {
    find_in_table(FENCES, name).or_else(|| find_in_table(DELIMITER_COMMANDS, name))
}

/// Finds a name in a table of names, each with its symbol.
fn find_in_table(table: &'static str, name: &str) -> Option<&'static str> {
    let mut words = table.split(' ');
    while let (Some(known), Some(meaning)) = (words.next(), words.next()) {
        if known == name {
            return Some(meaning);
        }
    }
    None
}

const DELIMITERS: &str = "( ( ) ) [ [ ] ] | | / / < ⟨ > ⟩";

const DELIMITER_COMMANDS: &str =
    "backslash \\ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ Updownarrow ⇕";

const GREEK: &str = "alpha α beta β gamma γ delta δ epsilon ϵ varepsilon ε zeta ζ eta η theta θ vartheta ϑ iota ι kappa κ \
    varkappa ϰ lambda λ mu μ nu ν xi ξ omicron ο pi π varpi ϖ rho ρ varrho ϱ sigma σ varsigma ς tau τ upsilon υ \
    phi ϕ varphi φ chi χ psi ψ omega ω Gamma Γ Delta Δ Theta Θ Lambda Λ Xi Ξ Pi Π Sigma Σ Upsilon Υ Phi Φ Psi Ψ \
    Omega Ω";

const IDENTIFIERS: &str = "infty ∞ partial ∂ nabla ∇ ell ℓ hbar ℏ hslash ℏ imath ı jmath ȷ Re ℜ Im ℑ wp ℘ aleph ℵ beth ℶ emptyset ∅ \
    varnothing ∅ top ⊤ bot ⊥ angle ∠ measuredangle ∡ triangle △ square □ Box □ blacksquare ■ qed □ degree ° dots … \
    ldots … cdots ⋯ vdots ⋮ ddots ⋱ dotsc … dotsb ⋯ dotsm ⋯ dotso … clubsuit ♣ diamondsuit ♢ heartsuit ♡ \
    spadesuit ♠ checkmark ✓ S § P ¶ pounds £ euro € yen ¥ copyright © % % $ $ # # & & _ _ backslash \\ \
    complement ∁ eth ð mho ℧ prime ′ star ⋆ bigstar ★ flat ♭ natural ♮ sharp ♯";

const OPERATORS: &str = "times × div ÷ cdot ⋅ pm ± mp ∓ ast ∗ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ oslash ⊘ odot ⊙ cap ∩ cup ∪ \
    sqcap ⊓ sqcup ⊔ uplus ⊎ wedge ∧ land ∧ vee ∨ lor ∨ neg ¬ lnot ¬ setminus ∖ smallsetminus ∖ wr ≀ amalg ⨿ \
    dagger † ddagger ‡ diamond ⋄ triangleleft ◁ triangleright ▷ colon : eq = ne ≠ neq ≠ lt < gt > le ≤ leq ≤ ge ≥ \
    geq ≥ leqslant ⩽ geqslant ⩾ ll ≪ gg ≫ nleq ≰ ngeq ≱ nless ≮ ngtr ≯ prec ≺ succ ≻ preceq ⪯ succeq ⪰ equiv ≡ \
    sim ∼ simeq ≃ cong ≅ approx ≈ approxeq ≊ asymp ≍ doteq ≐ propto ∝ coloneqq ≔ triangleq ≜ lesssim ≲ gtrsim ≳ \
    in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ nsubseteq ⊈ sqsubseteq ⊑ \
    sqsupseteq ⊒ mid ∣ nmid ∤ parallel ∥ nparallel ∦ perp ⟂ vdash ⊢ dashv ⊣ models ⊨ vDash ⊨ forall ∀ exists ∃ \
    nexists ∄ therefore ∴ because ∵ bowtie ⋈ smile ⌣ frown ⌢";

const ARROWS: &str = "to → gets ← rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹ \
    impliedby ⟸ iff ⟺ mapsto ↦ longrightarrow ⟶ longleftarrow ⟵ longleftrightarrow ⟷ Longrightarrow ⟹ \
    Longleftarrow ⟸ Longleftrightarrow ⟺ longmapsto ⟼ uparrow ↑ downarrow ↓ updownarrow ↕ Uparrow ⇑ Downarrow ⇓ \
    nearrow ↗ searrow ↘ swarrow ↙ nwarrow ↖ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ leftharpoonup ↼ \
    rightleftharpoons ⇌ leftrightharpoons ⇋ rightleftarrows ⇄ leadsto ⇝ rightsquigarrow ⇝ nrightarrow ↛ \
    twoheadrightarrow ↠ rightarrowtail ↣";

const FENCES: &str = "{ { } } lbrace { rbrace } lbrack [ rbrack ] lparen ( rparen ) langle ⟨ rangle ⟩ lfloor ⌊ rfloor ⌋ lceil ⌈ \
    rceil ⌉ lvert | rvert | vert | lVert ‖ rVert ‖ Vert ‖ | ‖ ulcorner ⌜ urcorner ⌝ llcorner ⌞ lrcorner ⌟";

const SUMS: &str = "sum ∑ prod ∏ coprod ∐ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁ bigotimes ⨂ bigodot ⨀ biguplus ⨄ \
    bigsqcup ⨆";

const INTEGRALS: &str = "int ∫ iint ∬ iiint ∭ oint ∮ oiint ∯ intop ∫ smallint ∫";

const FUNCTIONS: &str = "sin cos tan cot sec csc arcsin arccos arctan arccot sinh cosh tanh coth log ln lg exp arg deg dim hom ker tg \
    cotg arctg sgn erf Pr";

const LIMITS: &str = "lim lim max max min min sup sup inf inf det det gcd gcd limsup lim\u{a0}sup liminf lim\u{a0}inf argmax arg\u{a0}max \
    argmin arg\u{a0}min injlim inj\u{a0}lim projlim proj\u{a0}lim";

const SPACES: &str = ", 0.1667em thinspace 0.1667em : 0.2222em > 0.2222em medspace 0.2222em ; 0.2778em thickspace 0.2778em \
    ! -0.1667em negthinspace -0.1667em enspace 0.5em enskip 0.5em quad 1em qquad 2em hfill 1em";

const NOT_SHOWN: &str = "displaystyle textstyle scriptstyle scriptscriptstyle limits nolimits notag nonumber allowbreak nobreak relax \
    rm boldmath hline / - tiny small normalsize large Large LARGE huge Huge";
