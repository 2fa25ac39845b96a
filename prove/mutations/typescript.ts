/** Mutations of code that runs, and of the SQL in its strings. */
import { SyntaxKind } from 'typescript/unstable/ast'
import type { Edit } from './mutation.ts'
import { isSql, sqlEdits } from './sql.ts'
import { endsValue, type Token, tokensOf } from './tokens.ts'

const OPERATORS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '<': '<=',
    '<=': '<',
    '>': '>=',
    '>=': '>',
    '===': '!==',
    '!==': '===',
    '&&': '||',
    '||': '&&',
    '+': '-',
    '-': '+',
    '*': '/',
    '/': '*',
    true: 'false',
    false: 'true',
  }),
)

/** A call, a name or a chain of them: all that a lone `!` before it negates as a whole. */
const PLAIN_VALUE = /^ (?:[\w$#.?]|\[\w+\])+(?:\([^()]*\))?;?$/

type Rule = (tokens: readonly Token[], index: number, source: string) => readonly string[]

const operator: Rule = (tokens, index) => {
  const { text } = tokens[index] as Token
  const other = OPERATORS.get(text)
  if (other === undefined) return []
  const before = tokens[index - 1]
  if (text === 'true' || text === 'false') return before?.text === '.' ? [] : [other]
  // A sign before a value, and a star of a generator or an export, are no operators of two.
  if ('+-*'.includes(text) && !endsValue(before)) return []
  if (text === '*' && (before?.text === 'function' || before?.text === 'yield')) return []
  return text === '+' && (isText(before) || isText(tokens[index + 1])) ? [] : [other]
}

const number: Rule = (tokens, index) => {
  const { kind, text } = tokens[index] as Token
  if (kind !== SyntaxKind.NumericLiteral || !/^[\d_]+$/.test(text)) return []
  const value = Number(text.replaceAll('_', ''))
  return value === 0 ? ['1'] : [String(value + 1), String(value - 1)]
}

const negation: Rule = (tokens, index) => ((tokens[index] as Token).text === '!' ? [''] : [])

const returned: Rule = (tokens, index, source) => {
  const { text, at } = tokens[index] as Token
  if (text !== 'return' || tokens[index - 1]?.text === '.' || tokens[index + 1]?.text === ':') return []
  const end = source.indexOf('\n', at)
  const value = source.slice(at + text.length, end < 0 ? undefined : end)
  return PLAIN_VALUE.test(value) ? ['return !'] : []
}

const RULES: readonly Rule[] = [operator, number, negation, returned]

/** Throws where the source is not TypeScript that Node runs. */
export function typescriptEdits(source: string, kind: 'typescript' | 'javascript' = 'typescript'): readonly Edit[] {
  const tokens = tokensOf(source)
  const edits: Edit[] = []
  for (const [index, token] of tokens.entries()) {
    const { at, text: from } = token
    for (const rule of RULES) for (const to of rule(tokens, index, source)) edits.push({ at, from, to, kind })
    const wait = waited(tokens, index, source)
    if (wait !== null) edits.push({ at, from: wait, to: '', kind })
  }
  return [...edits, ...stringEdits(tokens)].sort((left, right) => left.at - right.at)
}

/** With the space behind it, so that what is left stands as if nobody had waited. */
function waited(tokens: readonly Token[], index: number, source: string): string | null {
  const { text, at } = tokens[index] as Token
  const isWait = text === 'await' && tokens[index - 1]?.text !== 'for' && source[at + text.length] === ' '
  return isWait && tokens[index + 1]?.text !== 'using' ? 'await ' : null
}

function isText(token: Token | undefined): boolean {
  return token !== undefined && (token.kind === SyntaxKind.StringLiteral || /^[`}]/.test(token.text))
}

/** Of strings and templates that are SQL as a whole; a template's parts belong together. */
function stringEdits(tokens: readonly Token[]): readonly Edit[] {
  const edits: Edit[] = []
  const open: Token[][] = []
  for (const token of tokens) {
    if (token.kind === SyntaxKind.StringLiteral || token.kind === SyntaxKind.NoSubstitutionTemplateLiteral) {
      edits.push(...editsOf([token]))
    }
    if (token.kind === SyntaxKind.TemplateHead) open.push([])
    if (isTemplatePart(token)) open.at(-1)?.push(token)
    if (token.kind === SyntaxKind.TemplateTail) edits.push(...editsOf(open.pop() ?? []))
  }
  return edits
}

function isTemplatePart({ kind }: Token): boolean {
  return [SyntaxKind.TemplateHead, SyntaxKind.TemplateMiddle, SyntaxKind.TemplateTail].includes(kind)
}

/** Quotes, backticks and the ends of holes are cut off; a backslash stays, and changes no token of SQL. */
function editsOf(parts: readonly Token[]): readonly Edit[] {
  const inner = parts.map(({ at, text }) => ({ at: at + 1, text: text.slice(1, text.endsWith('${') ? -2 : -1) }))
  if (!isSql(inner.map(({ text }) => text).join('x'))) return []
  return inner.flatMap(({ at, text }) => sqlEdits(text, at))
}
