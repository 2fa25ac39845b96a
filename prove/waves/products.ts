/** Products of several layers over tables, made up by a seed. */
import type { Random } from '../../conformance-tests/random.ts'

/** Of each of the small tables. */
export const SMALL_ROWS = 200
/** The one that large products are made of. */
export const LARGE_TABLE = 'w0'

export interface Made {
  readonly name: string
  /** From 1; products of one layer are not made of each other. */
  readonly layer: number
  /** Names of tables or products. */
  readonly of: readonly string[]
  /** Over `a` and `b`, which are its inputs: it means the same to PostgreSQL and to the engine. */
  readonly sql: string
  /** It has none of the checks that look at all of its rows. */
  readonly isUnchecked?: true
}

const ONE = [
  'SELECT id, n FROM a',
  'SELECT id, n FROM a WHERE n % 3 <> 1',
  'SELECT id, n * 2 + 1 AS n FROM a',
  'SELECT CAST(n % 50 AS INTEGER) AS id, count(*) AS n FROM a GROUP BY n % 50',
  'SELECT id, row_number() OVER (ORDER BY n, id) AS n FROM a',
]
const TWO = [
  'SELECT a.id, a.n + b.n AS n FROM a JOIN b ON a.id = b.id',
  'SELECT a.id, a.n FROM a WHERE NOT EXISTS (SELECT 1 FROM b WHERE b.id = a.id AND b.n > a.n)',
  'SELECT a.id, coalesce(b.n, a.n) AS n FROM a LEFT JOIN b ON a.id = b.id',
]

/** Of the guard: each is made of its changed rows, or of the rows of keys that changes touch. */
const PROVED = [
  'SELECT id, n FROM a',
  'SELECT id, n * 2 + 1 AS n FROM a',
  'SELECT id, n FROM a WHERE n % 101 <> 1',
  'SELECT id, CAST(max(n) AS BIGINT) AS n FROM a GROUP BY id',
]
const PROVED_JOIN = 'SELECT a.id, a.n + b.n AS n FROM a JOIN b ON a.id = b.id'

interface Sizes {
  readonly tables: number
  readonly products: number
  readonly layers: number
}

/** Layer by layer, each product of one or two of the layers before it; the first of tables. */
export function smallProducts(random: Random, { tables, products, layers: count }: Sizes): readonly Made[] {
  const layers: string[][] = [Array.from({ length: tables }, (_, index) => `t${index}`)]
  const made: Made[] = []
  for (let index = 0; index < products; index += 1) {
    const layer = 1 + Math.floor((index * count) / products)
    const last = layers[layer - 1] as string[]
    const before = layer === 1 ? last : layers.slice(1, layer).flat()
    // One input at least is of the layer before, so that there are as many layers as were asked for.
    const of = [...new Set([random.pick(last), ...(random.chance(0.5) ? [random.pick(before)] : [])])]
    const name = `p${index}`
    made.push({ name, layer, of, sql: random.pick(of.length === 2 ? TWO : ONE) })
    layers[layer] = [...(layers[layer] ?? []), name]
  }
  return made
}

/** Each made of the one before, or of the two before, over one large table. */
export function largeProducts(random: Random, products: number): readonly Made[] {
  const made: Made[] = []
  for (let index = 0; index < products; index += 1) {
    const [last, other] = [made.at(-1)?.name, made.at(-2)?.name]
    const isJoin = last !== undefined && other !== undefined && index % 3 === 2
    const of = isJoin ? [last, other] : [last ?? LARGE_TABLE]
    const sql = isJoin ? PROVED_JOIN : random.pick(PROVED)
    made.push({ name: `large${index}`, layer: index + 1, of, sql, isUnchecked: true })
  }
  return made
}

/** Names of all that is made of these tables, by as many steps as there are. */
export function madeOf(tables: Iterable<string>, made: readonly Made[]): ReadonlySet<string> {
  const found = new Set(tables)
  for (const { name, of } of made) if (of.some((one) => found.has(one))) found.add(name)
  return new Set(made.map(({ name }) => name).filter((name) => found.has(name)))
}
