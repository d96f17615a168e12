// Names of functions in C++ and Rust, in fewer and fewer characters. hostprofiles-top does the same
// (cmd/hostprofiles-top/internal/text/forms.go); both are held to testdata/names/forms.json.

/** The longest name of which shorter forms are looked for. */
const longest = 64 << 10;

/** What is in the brackets of a name loses its qualifiers up to this length: looking for them takes time. */
const longestBrief = 1000;

/** Component is what is between two :: of a qualified name. */
interface Component {
  name: string; // without arguments and parameters
  empty: string; // with arguments left out between their brackets
  args: boolean; // it has template or generic arguments
  params: boolean;
  opaque: boolean; // what is in brackets, or an operator
}

const component = (): Component => ({ name: "", empty: "", args: false, params: false, opaque: false });

/** saysNothing is true for closures, in the words of several compilers, and for the operator that everything callable has. */
function saysNothing(c: Component): boolean {
  if (c.name.startsWith("operator")) return c.name === "operator()";
  return c.opaque || c.name.startsWith("$_") || c.name.startsWith("'lambda");
}

const isWord = (c: string | undefined) => c !== undefined && /[\w\u0080-\uffff]/.test(c);
const takesArguments = (c: string | undefined) => isWord(c) || c === ">" || c === "]" || c === "}";

// Names in angle brackets, from behind the first: the others are arguments.
const namedGroup = /^(?:impl |lambda|unnamed|anonymous|closure)/;

// What follows parameters.
const suffixes = /^ (?:const|volatile|&|noexcept|\[|\(|\.)/;

// Operators with brackets in their names, longer ones first.
const operators = ["<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">"];

/**
 * operator is the length of the operator's name at i, 0 if there is none. Conversions and those that are words have all up to
 * their parameters.
 */
function operator(text: string, i: number): number {
  if (!text.startsWith("operator", i) || isWord(text[i - 1])) return 0;
  let at = i + "operator".length;
  const next = text[at];
  if (next === undefined || isWord(next) || next === ":" || next === ".") return 0;
  if (next === " " || next === '"') {
    while (at < text.length && text[at] !== "(") {
      if (text[at] !== "<" && text[at] !== "[") {
        at++;
        continue;
      }
      at = group(text, at);
      if (at < 0) return 0;
    }
    return at - i;
  }
  for (const o of operators) if (text.startsWith(o, at)) return at + o.length - i;
  while (at < text.length && "+-*/%^&|~!=,".includes(text[at]!)) at++;
  return at - i;
}

/** symbol is the length of the operator's name at i if it is one of signs, else 0. */
function symbol(text: string, i: number): number {
  if (text[i] !== "o") return 0;
  const next = text[i + "operator".length];
  return next === " " || next === '"' ? 0 : operator(text, i);
}

const opens: Record<string, string> = { ")": "(", "]": "[", "}": "{" };

/** group is where the brackets end that open at i, -1 if they don't. Angle brackets may be comparisons within others. */
function group(text: string, i: number): number {
  const open: string[] = [];
  for (let at = i; at < text.length; ) {
    const c = text[at]!;
    if (c === "<" || c === "(" || c === "[" || c === "{") open.push(c);
    else if (c === ">") {
      if (text[at - 1] !== "-" && open[open.length - 1] === "<") open.pop();
    } else if (c === ")" || c === "]" || c === "}") {
      while (open[open.length - 1] === "<") open.pop();
      if (open.pop() !== opens[c]) return -1;
    } else {
      const n = symbol(text, at);
      if (n > 0) {
        at += n;
        continue;
      }
    }
    at++;
    if (open.length === 0) return at;
  }
  return -1;
}

/** emptied leaves out arguments in angle brackets. */
function emptied(text: string): string {
  let out = "";
  for (let i = 0; i < text.length; ) {
    const n = symbol(text, i);
    if (n > 0) {
      out += text.slice(i, i + n);
      i += n;
    } else if (text[i] === "<" && (takesArguments(text[i - 1]) || text[i - 1] === ":")) {
      const end = group(text, i);
      if (end < 0) return out + text.slice(i);
      out += "<>";
      i = end;
    } else out += text[i++]!;
  }
  return out;
}

/** brief is what is in the brackets of a name: types without their qualifiers, lambdas without parameters. */
function brief(inner: string): string {
  let text = emptied(inner);
  if (text.startsWith("lambda(")) {
    const end = group(text, "lambda".length);
    if (end > 0) text = `lambda()${text.slice(end)}`;
  }
  if (!text.includes("::") || text.length > longestBrief) return text;
  return text.replace(/(?:[\w\u0080-\uffff]+(?:(?:::)?<>)?::)+([\w\u0080-\uffff])/g, "$1");
}

/** Reader takes a name apart. Components are those behind prefix: a type that is returned, or words as "thunk to". */
class Reader {
  private prefix = ""; // with what is in angle brackets left out, and the space
  private components: Component[] = [];
  private now = component();
  private suffix = ""; // behind the parameters: const, [clone .cold]

  constructor(private readonly text: string) {}

  /** read is false if brackets do not come in pairs. */
  read(): boolean {
    const { text } = this;
    for (let i = 0; i < text.length; ) {
      const c = text[i]!;
      if (text.startsWith("::", i)) {
        i += 2;
        if (text[i] === "<" && this.now.name !== "" && !namedGroup.test(text.slice(i + 1, i + 12))) {
          this.now.empty += "::"; // Rust's arguments
          continue;
        }
        this.components.push(this.now);
        this.now = component();
      } else if (c === "<" || c === "(" || c === "[" || c === "{") {
        const end = group(text, i);
        if (end < 0) return false;
        this.bracket(text.slice(i, end));
        i = end;
      } else if (c === ">" || c === ")" || c === "]" || c === "}") {
        if (c !== ">" || text[i - 1] !== "-") return false;
        this.add(c);
        i++;
      } else if (c === " ") {
        if (this.now.params && suffixes.test(text.slice(i, i + 12))) {
          this.suffix = text.slice(i);
          return true;
        }
        i++;
        if (this.now.opaque && text[i] === "<") continue; // operator<< <char>
        this.prefix += `${this.joined()} `;
        this.components = [];
        this.now = component();
      } else {
        const n = operator(text, i);
        if (n > 0 && this.now.name === "") this.now.opaque = true;
        this.add(text.slice(i, i + Math.max(n, 1)));
        i += Math.max(n, 1);
      }
    }
    return true;
  }

  private add(s: string): void {
    this.now.name += s;
    this.now.empty += s;
  }

  /** bracket takes up what is in brackets, with them. */
  private bracket(text: string): void {
    const { now } = this;
    const inner = text.slice(1, -1);
    const last = now.empty.at(-1);
    if (text[0] === "{") {
      now.opaque ||= now.name === "";
      now.name += `{${brief(inner)}}`;
      now.empty += emptied(text);
    } else if (now.name === "" && text[0] === "<") {
      now.opaque = inner.startsWith("lambda");
      now.name = `<${brief(inner)}>`;
      now.empty += `<${emptied(inner)}>`;
    } else if (now.name === "") this.add(text);
    else if (text[0] === "<" && (takesArguments(last) || last === ":" || now.opaque)) {
      now.args = true;
      now.empty += "<>";
    } else if (text[0] === "(" && (takesArguments(last) || last === "'" || now.opaque)) {
      now.params = true;
      now.empty += emptied(text);
    } else if (text[0] === "[" && inner.startsWith("abi:")) now.empty += text;
    else this.add(text);
  }

  private joined(): string {
    return [...this.components, this.now].map((c) => c.empty).join("::");
  }

  forms(): string[] {
    const all = [...this.components, this.now];
    const last = all.length - 1;
    let { prefix } = this;
    // Only templates of functions tell the type that they return.
    if (all.some((c) => c.args) && all[last]!.params && !/ (?:to|for) $/.test(prefix)) prefix = "";
    const bare = all.map((c, i) => (i < last ? c.empty : c.name)).join("::") + (all[last]!.args ? "<>" : "");
    let one = last;
    while (one > 0 && saysNothing(all[one]!)) one--;
    const names = (from: number) =>
      prefix +
      all
        .slice(from)
        .map((c) => c.name)
        .join("::");
    return [this.prefix + this.joined() + this.suffix, prefix + bare, names(Math.max(one - 1, 0)), names(one)];
  }
}

/** dotted splits a name at its dots, but not at those in brackets. */
export function dotted(name: string): string[] {
  const out: string[] = [];
  let from = 0;
  for (let i = 0; i < name.length; ) {
    if (name[i] === ".") {
      out.push(name.slice(from, i));
      from = i + 1;
    }
    const end = "<([{".includes(name[i]!) ? group(name, i) : i + 1;
    if (end < 0) return name.split(".");
    i = end;
  }
  return [...out, name.slice(from)];
}

/**
 * forms gives a name in fewer and fewer characters, the full one first: with what is in angle brackets left out; without
 * parameters and the type that is returned; the last two parts of the qualified name; the last part. What it cannot read it
 * leaves alone.
 */
export function forms(name: string): string[] {
  const out = [name];
  if (name.length > longest) return out;
  const reader = new Reader(name);
  if (!reader.read()) return out;
  for (const form of reader.forms()) if (form !== "" && form.length < out[out.length - 1]!.length) out.push(form);
  return out;
}
