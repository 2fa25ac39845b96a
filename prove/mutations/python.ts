/** Mutations of Python: of the few programs that tests run in outside engines. */
import type { Edit } from './mutation.ts'
import { isSql, sqlEdits } from './sql.ts'

const TOKENS =
  /#[^\n]*|(?:[rbfu]{0,2})(?:"""[\s\S]*?"""|'''[\s\S]*?'''|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')|[A-Za-z_]\w*|\d[\w.]*|[<>=!]=|\*\*|\/\/|->|:=|[-+*/%]=?|[<>]/gi

const OTHERS: ReadonlyMap<string, string> = new Map(
  Object.entries({
    '<': '<=',
    '<=': '<',
    '>': '>=',
    '>=': '>',
    '==': '!=',
    '!=': '==',
    '-': '+',
    '/': '*',
    and: 'or',
    or: 'and',
    True: 'False',
    False: 'True',
  }),
)

export function pythonEdits(source: string): readonly Edit[] {
  const edits: Edit[] = []
  for (const match of source.matchAll(TOKENS)) {
    const [from] = match
    const at = match.index
    const text = /^[a-z]{0,2}(["'])/i.test(from) ? innerOf(from) : null
    if (text !== null) edits.push(...(isSql(text.text) ? sqlEdits(text.text, at + text.skipped) : []))
    else {
      const to = otherToken(source, at, from)
      if (to !== null) edits.push({ at, from, to, kind: 'python' })
    }
  }
  return edits
}

function innerOf(literal: string): { readonly text: string; readonly skipped: number } {
  const quote = /"""|'''|["']/.exec(literal)
  const skipped = (quote?.index ?? 0) + (quote?.[0].length ?? 0)
  return { text: literal.slice(skipped, literal.length - (quote?.[0].length ?? 0)), skipped }
}

function otherToken(source: string, at: number, token: string): string | null {
  if (/^\d+$/.test(token)) return String(Number(token) + 1)
  const other = OTHERS.get(token)
  if (other === undefined) return null
  // A sign belongs to the number behind it, and not to two operands.
  const before = source.slice(0, at).trimEnd().at(-1) ?? ''
  return '-/'.includes(token) && !/[\w)\]]/.test(before) ? null : other
}
