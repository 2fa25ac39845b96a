/** Statements that are kept under a name, by a message or by PREPARE, and run by EXECUTE. */
import type { ParameterValue } from '../protocol/client-messages.ts'
import { notSupported, readOnly, WireError } from '../protocol/wire-error.ts'
import { commandOf, isCommand, isWrite } from '../sql/commands.ts'
import { copyOf } from '../sql/copy.ts'
import { isName, type Statement, type Word } from '../sql/words.ts'
import { oidOfTypeWords, parameterOids, toldOids } from '../values/parameters.ts'
import { type Prepared, WORD_BYTES } from './kept.ts'
import type { RowPlan } from './row-plan.ts'

const NUMBER_BYTES = 8

interface Preparing {
  readonly name: string
  /** As it was sent. */
  readonly sql: string
  /** Null of a text without any. */
  readonly statement: Statement | null
  readonly declared: readonly number[]
  readonly isFromSql: boolean
}

export function preparedOf(
  { name, sql, statement, declared, isFromSql }: Preparing,
  planOf: (statement: Statement, declared: readonly number[]) => RowPlan,
): Prepared {
  const words = statement?.words ?? []
  const word = statement === null ? '' : commandOf(statement)
  // Refused where it is prepared, and taken apart again where it is run.
  if (statement !== null && word === 'copy') copyOf(statement)
  // Those in the text of a PREPARE are of what it prepares.
  const oids = word === 'prepare' ? [] : parameterOids(words, declared)
  const plan = statement === null || isCommand(word) ? null : planOf(statement, declared)
  const command = plan === null ? statement : null
  return {
    command,
    parameters: oids.length,
    declared,
    toldOids: toldOids(oids),
    sql,
    createdAt: new Date(),
    isFromSql,
    keptBytes: 4 * (name.length + sql.length) + WORD_BYTES * (command?.words.length ?? 0) + NUMBER_BYTES * oids.length,
    plan,
    oids: null,
  }
}

/** PREPARE name [(type, …)] AS SELECT …. Throws 42601 and 0A000 for any other, 42704 for types that there are not. */
export function preparationOf({
  sql,
  words,
}: Statement): Pick<Preparing, 'name' | 'declared'> & { readonly statement: Statement } {
  const name = words[1]
  const isTyped = words[2]?.text === '('
  const end = isTyped ? closing(words, 2) : 1
  const first = words[end + 2]
  if (name === undefined || !isName(name) || words[end + 1]?.value !== 'as' || first === undefined) {
    throw new WireError('42601', 'PREPARE takes a name, AS, and a statement')
  }
  const statement = { sql: sql.slice(first.at - (words[0]?.at ?? 0)), words: words.slice(end + 2) }
  const command = commandOf(statement)
  if (isWrite(command)) throw readOnly(command.toUpperCase())
  if (isCommand(command) || command === 'execute') throw notSupported('only statements that give rows are prepared')
  return { name: name.value, declared: isTyped ? listIn(words.slice(3, end)).map(oidOfTypeWords) : [], statement }
}

/** EXECUTE name [(value, …)]. Throws 0A000 for values that are no constants. */
export function executionOf({ words }: Statement): {
  readonly name: string
  readonly values: readonly ParameterValue[]
} {
  const name = words[1]
  if (name === undefined || !isName(name)) throw new WireError('42601', 'EXECUTE takes the name of a statement')
  if (words.length === 2) return { name: name.value, values: [] }
  if (words[2]?.text !== '(' || closing(words, 2) !== words.length - 1) {
    throw new WireError('42601', 'EXECUTE takes a name, and values in parentheses')
  }
  return { name: name.value, values: listIn(words.slice(3, -1)).map(constantOf) }
}

function closing(words: readonly Word[], open: number): number {
  let depth = 0
  const at = words.findIndex(({ kind, text }, own) => {
    if (own >= open && kind === 'mark') depth += text === '(' ? 1 : text === ')' ? -1 : 0
    return own >= open && depth === 0
  })
  if (at < 0) throw new WireError('42601', 'a parenthesis has no end')
  return at
}

/** What stands between commas. */
function listIn(words: readonly Word[]): readonly (readonly Word[])[] {
  const parts: Word[][] = [[]]
  let depth = 0
  for (const word of words) {
    depth += word.text === '(' ? 1 : word.text === ')' ? -1 : 0
    if (word.text === ',' && depth === 0) parts.push([])
    else parts.at(-1)?.push(word)
  }
  return parts
}

/** A number with its sign, a text, true, false or null, cast or not: a cast says no more than the parameter's own type. */
function constantOf(words: readonly Word[]): ParameterValue {
  const cast = words.findIndex(({ text }, at) => text === ':' && words[at + 1]?.text === ':')
  const own = cast < 0 ? words : words.slice(0, cast)
  const [first, second] = own
  const signed = own.length === 2 && ['-', '+'].includes(first?.text ?? '') && second?.kind === 'number'
  const text = signed
    ? `${first?.text}${second.text}`
    : own.length === 1 && first !== undefined
      ? textOf(first)
      : undefined
  if (text === undefined) throw notSupported('EXECUTE takes constants: numbers, texts, true, false and null')
  return { format: 0, bytes: text === null ? null : Buffer.from(text) }
}

function textOf({ kind, text, value }: Word): string | null | undefined {
  if (kind === 'number') return text
  if (kind === 'text' && text.startsWith("'")) return text.slice(1, -1).replaceAll("''", "'")
  if (kind !== 'name') return undefined
  return value === 'null' ? null : ['true', 'false'].includes(value) ? value : undefined
}

/** Of a prepared statement's rows, with these values: it is looked for when it is told of or run. */
export function executePlan(statement: Statement, find: (name: string) => Prepared): RowPlan {
  const { name, values } = executionOf(statement)
  const plan = (): RowPlan => {
    const { plan: own, parameters } = find(name)
    if (own === null) throw notSupported('that prepared statement gives no rows', 'Run it by a message.')
    if (parameters !== values.length) {
      throw new WireError('42601', `the statement takes ${parameters} parameters, and got ${values.length}`)
    }
    return own
  }
  return {
    tag: (rows) => `SELECT ${rows}`,
    describe: async (call) => ({ parameterOids: [], columns: (await plan().describe(call)).columns }),
    open: (call, bound) => plan().open(call, { ...bound, values }),
  }
}
