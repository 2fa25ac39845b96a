import type { Fixture, Knobs } from '@sluice/conformance'
import type { Row, TableSchema, Value } from '@sluice/sdk'

/** The file stands in the folder that the host gives to the store, so there is nothing to start. */
export async function start(): Promise<Fixture> {
  return { settings: {}, async restart() {}, async stop() {} }
}

const textColumns = ({ columns }: TableSchema) =>
  columns.filter(({ type }) => type === 'string').map(({ name }) => name)

/** The suite's rows hold words of a, b, C, é and 7, parted by hyphens. */
const INPUTS = [
  { words: 'a' },
  { words: 'A b', mode: 'any' },
  { words: 'a e', mode: 'any', prefix: true },
  { words: 'c 7', prefix: true },
  { words: '7-b', mode: 'phrase', prefix: true },
  { words: '" OR (a) NEAR b* ^ : {', mode: 'any' },
  { words: '-' },
]

export const knobs: Knobs = {
  config: (schema) => ({ text_columns: textColumns(schema).slice(0, 8) }),
  operations: {
    search: {
      inputs: (_, rows) => [
        ...INPUTS,
        { words: String(rows.find((row) => row[NAME])?.[NAME] ?? 'a'), columns: ['name'] },
      ],
      expected: (input, schema, rows) => bestFirst(input, schema, rows),
    },
  },
}

/** Where the suite's tables have their text. */
const NAME = 2
const [K1, B, LEAST_IDF] = [1.2, 0.75, 1e-6]

/** BM25 over the rows, told from its formula and with nothing of FTS5: https://www.sqlite.org/fts5.html#the_bm25_function */
function bestFirst(input: Readonly<Record<string, unknown>>, { columns }: TableSchema, rows: readonly Row[]) {
  const at = columns.findIndex(({ type }) => type === 'string')
  const documents = rows.map((row) => wordsOf(row[at] ?? null))
  const averageLength = documents.flat().length / rows.length
  const text = String(input['words'])
  const terms = (input['mode'] === 'phrase' ? [text] : [...new Set(text.split(/\s+/))])
    .map(wordsOf)
    .filter((term) => term.length > 0)
  const counts = terms.map((term) => documents.map((words) => countOf(term, words, input['prefix'] === true)))
  const weights = counts.map((each) => {
    const having = each.filter((count) => count > 0).length
    return Math.max(LEAST_IDF, Math.log((rows.length - having + 0.5) / (having + 0.5)))
  })
  const found = rows.flatMap((row, index) => {
    const own = counts.map((each) => each[index] ?? 0)
    const isFound = input['mode'] === 'any' ? own.some((count) => count > 0) : own.every((count) => count > 0)
    if (!isFound || terms.length === 0) return []
    const damping = K1 * (1 - B + (B * (documents[index]?.length ?? 0)) / averageLength)
    const score = own.reduce(
      (sum, count, term) => sum + (weights[term] ?? 0) * ((count * (K1 + 1)) / (count + damping)),
      0,
    )
    return [{ row, score: Number(score.toPrecision(12)) }]
  })
  return found.sort((left, right) => right.score - left.score || keyOrder(left.row, right.row)).map(({ row }) => row)
}

const keyOrder = ([left = 0n]: Row, [right = 0n]: Row) => (Number(left) < Number(right) ? -1 : 1)

function wordsOf(value: Value): readonly string[] {
  const plain = String(value ?? '')
    .normalize('NFD')
    .replaceAll(/\p{M}/gu, '')
    .toLowerCase()
  return plain.match(/[\p{L}\p{N}]+/gu) ?? []
}

function countOf(term: readonly string[], words: readonly string[], isPrefix: boolean): number {
  const matches = (start: number) =>
    term.every((word, offset) => {
      const other = words[start + offset]
      return isPrefix && offset === term.length - 1 ? other?.startsWith(word) : other === word
    })
  return words.filter((_, start) => matches(start)).length
}
