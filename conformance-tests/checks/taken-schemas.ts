/** Schemas that a store takes over rows that are there: each row then has them as they say, or they are refused. */
import {
  type Column,
  isSluiceError,
  type LogicalType,
  parseDecimal,
  type Row,
  type TableSchema,
  type Value,
} from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { describeDifference, differenceOf, keyText } from '../compare.ts'
import { type CheckContext, FORCED_POLICY } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { changed, rowsOf, SIMPLE } from '../shapes.ts'
import { changesOf } from './beside.ts'

type Change = readonly [what: string, schema: TableSchema]

export const takenSchemaChecks: readonly Check[] = [
  {
    id: 192,
    name: 'rows-are-as-every-schema-says-that-is-taken',
    level: 'full',
    notFor: ({ commit }) => (commit === 'lake' ? 'what is served is what the lake has' : null),
    async run(context) {
      let refused = 0
      let taken = 0
      for (const change of [...changesOf(context), ...nearChanges()]) {
        const dataset = await filled(context)
        if (await expectTaken(context, dataset, change)) taken += 1
        else refused += 1
        await context.release(dataset)
      }
      expect(taken > 0 && refused > 0, () => vacuous(`${taken} schemas were taken, ${refused} refused`))
    },
  },
]

async function filled(context: CheckContext): Promise<Dataset> {
  const dataset = await context.dataset(SIMPLE, { tenant: 'schemas' })
  const rows = rowsOf(SIMPLE, 1, 6, context.random).map((row, index) =>
    changed(
      SIMPLE,
      row,
      index === 0 ? { name: null, amount: null, rank: null } : { name: `n${index}`, rank: index, amount: '12.50' },
    ),
  )
  await dataset.full(rows)
  await dataset.expectRows('the rows must be there before their columns can change')
  return dataset
}

/** Changes that a store may do, and that it can do wrong. */
function nearChanges(): readonly Change[] {
  const retyped = (name: string, type: LogicalType): Change => [
    `${name} as ${type}`,
    { ...SIMPLE, columns: SIMPLE.columns.map((one) => (one.name === name ? { ...one, type } : one)) },
  ]
  const more: Column = { name: 'more', type: 'string', nullable: true }
  const { columns } = SIMPLE
  return [
    retyped('amount', 'decimal(14,4)'),
    retyped('amount', 'decimal(14,2)'),
    retyped('amount', 'decimal(12,4)'),
    retyped('rank', 'long'),
    retyped('rank', 'double'),
    retyped('rank', 'string'),
    retyped('active', 'string'),
    retyped('at', 'timestamp'),
    retyped('name', 'json'),
    ['a column more in the middle', { ...SIMPLE, columns: [...columns.slice(0, 3), more, ...columns.slice(3)] }],
    ['a column more before all others', { ...SIMPLE, columns: [more, ...columns] }],
    ['all columns in reverse', { ...SIMPLE, columns: columns.toReversed() }],
  ]
}

/** False where it is refused, which leaves the rows as they were. */
async function expectTaken(context: CheckContext, dataset: Dataset, [what, schema]: Change): Promise<boolean> {
  const next = context.grown(dataset, schema, { tenant: 'schemas' })
  const refusal = await context.store.provision(next.target, 'apply').then(
    () => null,
    (error: unknown) => error,
  )
  if (refusal !== null) {
    if (!isSluiceError(refusal)) throw refusal
    await dataset.expectRows(`a schema that was refused (${what}) leaves the rows as they were`)
    return false
  }
  await context.store.rls.install(next.target, FORCED_POLICY)
  const rows = [...dataset.content.values()].map((row) => reshaped(schema, row, what))
  next.content = new Map(rows.map((row) => [keyText(schema, row), row]))
  next.candidates.splice(0, Number.POSITIVE_INFINITY, ...rows)
  await expectShown(next, what)
  // Rows without a key would only be added.
  if (schema.primaryKey.length > 0) await next.delta(rows.slice(0, 2))
  await expectShown(next, `${what}, after a delta`)
  return true
}

async function expectShown(dataset: Dataset, what: string): Promise<void> {
  const { schema } = dataset.target
  for (const way of dataset.ways()) {
    const wanted = [...dataset.content.values()]
    const difference = differenceOf(schema, wanted, await dataset.see({ way }))
    if (difference === null) continue
    throw new CheckFailure({
      what: `a schema was taken, and rows are not as it says: ${describeDifference(difference)}`,
      expected: `${wanted.length} rows, each value under its own column and of its type; or CONFLICT schema_conflict`,
      came: 'others',
      where: `read ${way}, where there is ${what}`,
      why: 'readers are told the new columns from that moment on, of the rows that are there too',
      remedy: 'Move and convert what is there, or refuse what you cannot.',
    })
  }
}

/**
 * The row under the next schema: by name, a column that was not there null, values of another type as that has them. Whether a
 * null may stay where the column may have none any more is the store's affair: nothing is lost by it.
 */
function reshaped({ columns }: TableSchema, row: Row, what: string): Row {
  return columns.map(({ name, type }) => {
    const at = SIMPLE.columns.findIndex((one) => one.name === name)
    const value = converted(row[at] ?? null, SIMPLE.columns[at]?.type ?? type, type)
    if (value !== undefined) return value
    throw new CheckFailure({
      what: `a schema was taken that rows which are there cannot have: ${name} as ${type}`,
      expected: 'CONFLICT schema_conflict',
      came: 'a plan that was applied',
      where: `store.provision, mode apply, where there is ${what}`,
      why: 'a value that has no counterpart in the new type is lost or bent',
      remedy: 'Refuse what the rows do not fit.',
    })
  })
}

/** Undefined where the value has none in that type. */
function converted(value: Value, from: LogicalType, to: LogicalType): Value | undefined {
  if (value === null || from === to) return value
  if (from === 'integer' && to === 'long') return BigInt(value as number)
  if (from === 'integer' && to === 'double') return value
  if (from === 'timestamptz' && to === 'timestamp') return String(value).replace('Z', '')
  if (to === 'string' && (from === 'integer' || from === 'boolean')) return String(value)
  const [former, next] = [parseDecimal(from), parseDecimal(to)]
  if (former === null || next === null || next.scale < former.scale) return undefined
  if (next.precision - next.scale < former.precision - former.scale && next.precision < former.precision)
    return undefined
  return `${value}${'0'.repeat(next.scale - former.scale)}`
}
