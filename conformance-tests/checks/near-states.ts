/** Histories of values that are near each other: what a reader tells apart opens a state, and what he does not opens none. */
import {
  type Capabilities,
  type Column,
  type LogicalType,
  type Row,
  type TableSchema,
  typeName,
  type Value,
} from '@sluice/sdk'
import { type Check, CheckFailure, expect, vacuous } from '../check.ts'
import { indexOf, sameValue, shown } from '../compare.ts'
import type { CheckContext } from '../context.ts'
import type { Dataset } from '../dataset.ts'
import { answerOf, openPolicy, planOf } from '../reading.ts'
import { historyMode } from '../requirements.ts'
import { instantAt, SIMPLE } from '../shapes.ts'

/** Each beside what an engine or a language may take for the same. */
const SERIES: readonly (readonly [LogicalType, readonly Value[]])[] = [
  ['string', ['', null, 'null', ' ', '', 'a', 'a ', 'A', '\u00e9', 'e\u0301', '0', null, '']],
  ['boolean', [false, null, true, false]],
  ['integer', [0, null, 1, 0]],
  ['long', [9007199254740992n, 9007199254740993n, null, 0n, null]],
  ['double', [0, null, Number.NaN, null, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY]],
  ['decimal(21,2)', ['0.00', null, '1234567890123456789.10', '1234567890123456789.11']],
  ['date', ['1970-01-01', null, '1970-01-02']],
  ['timestamp', ['1970-01-01T00:00:00.000000', null, '1970-01-01T00:00:00.000001']],
  ['timestamptz', ['1970-01-01T00:00:00.000000Z', null, '1970-01-01T00:00:00.000001Z']],
  ['binary', [new Uint8Array(), null, Uint8Array.of(0), Uint8Array.of(0, 0), Uint8Array.of(0xff), Uint8Array.of(0xfe)]],
]
const STEPS = 2 * Math.max(...SERIES.map(([, values]) => values.length))

export const nearStateChecks: readonly Check[] = [
  {
    id: 186,
    name: 'states-open-for-what-readers-tell-apart-and-for-nothing-else',
    level: 'full',
    requires: [historyMode('type_2')],
    async run(context) {
      const told = await lived(context, 'type_2')
      const wanted = told.columns.map((column) => statesOf(column, told.steps))
      const { given } = await statesIn(context, told)
      for (const [at, column] of told.columns.entries()) expectStates(column, wanted[at] ?? [], given[at] ?? [])
      expect(
        wanted.some((states) => states.length > 5),
        () => vacuous('hardly a value has changed'),
      )
    },
  },
  {
    id: 187,
    name: 'previous-is-the-value-before-the-last-change',
    level: 'full',
    requires: [historyMode('type_3')],
    async run(context) {
      let changes = 0
      const previous = new Map<string, Value>()
      const before = new Map<string, Value>()
      await lived(context, 'type_3', async ({ dataset, columns }, step) => {
        for (const column of columns) {
          const value = valueAt(column, step)
          const former = before.get(column.name)
          if (former !== undefined && !sameValue(column.type, former, value)) {
            previous.set(column.name, former)
            changes += 1
          }
          before.set(column.name, value)
        }
        await expectPrevious(context, dataset, columns, previous, step)
      })
      expect(changes > 20, () => vacuous(`there were ${changes} changes`))
    },
  },
]

interface Told {
  readonly dataset: Dataset
  readonly columns: readonly Column[]
  /** When each step was committed. */
  readonly steps: readonly string[]
}

const heldTypes = (capabilities: Capabilities) =>
  SERIES.filter(([type]) => capabilities.types[typeName(type)] === 'exact')

const nameOf = (type: LogicalType) => `c_${typeName(type)}`

/** Each value is written twice, made anew: the second time nothing has changed. */
function valueAt({ type }: Column, step: number): Value {
  const values = SERIES.find(([one]) => one === type)?.[1] ?? [null]
  const value = values[Math.floor(step / 2) % values.length] ?? null
  return value instanceof Uint8Array ? Uint8Array.from(value) : value
}

/** A row for each column, in which that one alone changes. */
async function lived(
  context: CheckContext,
  mode: 'type_2' | 'type_3',
  after: (told: Told, step: number) => Promise<void> = async () => undefined,
): Promise<Told> {
  const columns = heldTypes(context.capabilities).map(
    ([type]): Column => ({ name: nameOf(type), type, nullable: true }),
  )
  const schema: TableSchema = { columns: [...SIMPLE.columns.slice(0, 2), ...columns], primaryKey: ['id'] }
  const tracked = columns.map(({ name }) => name)
  const dataset = await context.dataset(schema, { history: { mode, tracked }, indexed: ['id'] })
  const steps: string[] = []
  for (let step = 0; step < STEPS; step += 1) {
    const upserts = columns.map(
      (column, id): Row => [
        BigInt(id),
        instantAt(id),
        ...columns.map((one) => (one === column ? valueAt(column, step) : null)),
      ],
    )
    const write = await dataset.prepare({ mode: step === 0 ? 'full' : 'delta', upserts })
    await dataset.apply(write)
    steps.push(write.commit.committedAt)
    await after({ dataset, columns, steps }, step)
  }
  return { dataset, columns, steps }
}

type State = readonly [value: Value, from: Value, to: Value]

function statesOf(column: Column, steps: readonly string[]): readonly State[] {
  const states: State[] = []
  for (const [step, instant] of steps.entries()) {
    const value = valueAt(column, step)
    const last = states.at(-1)
    if (last !== undefined && sameValue(column.type, last[0], value)) continue
    if (last !== undefined) states[states.length - 1] = [last[0], last[1], instant]
    states.push([value, instant, null])
  }
  return states
}

async function statesIn(context: CheckContext, { dataset, columns }: Told) {
  const schema = shownSchema(dataset, [
    { name: 'valid_from', type: 'timestamptz', nullable: false },
    { name: 'valid_to', type: 'timestamptz', nullable: true },
  ])
  const given: State[][] = []
  for (const [id, column] of columns.entries()) {
    const names = [column.name, 'valid_from', 'valid_to']
    const rows = await rowsById(context, dataset, schema, BigInt(id), names, { history: { kind: 'all' } })
    const states = rows.map(([value = null, from = null, to = null]): State => [value, from, to])
    given.push(states.sort((left, right) => (String(left[1]) < String(right[1]) ? -1 : 1)))
  }
  return { given }
}

function shownSchema({ target: { schema } }: Dataset, added: readonly Column[]): TableSchema {
  return { ...schema, columns: [...schema.columns, ...added] }
}

async function rowsById(
  { store, capabilities }: CheckContext,
  { target }: Dataset,
  schema: TableSchema,
  id: bigint,
  columns: readonly string[],
  parts: Parameters<typeof planOf>[2] = {},
): Promise<readonly Row[]> {
  const way = capabilities.operations.includes('get') ? 'get' : 'scan'
  const filters = [{ column: 'id', operator: 'eq' as const, values: [id] }]
  return (
    await answerOf(store, target, planOf(schema, way, { columns, filters, policy: openPolicy(schema), ...parts }))
  ).rows
}

function expectStates({ name, type }: Column, wanted: readonly State[], given: readonly State[]): void {
  const isSame =
    wanted.length === given.length &&
    wanted.every(([value, from, to], at) => {
      const [found = null, since = null, until = null] = given[at] ?? []
      return sameValue(type, value, found) && from === since && to === until
    })
  const text = (states: readonly State[]) => states.map(([value]) => shown(value)).join(', ')
  if (isSame) return
  throw new CheckFailure({
    what: `the history of a ${type} has other states than its values had`,
    expected: text(wanted),
    came: text(given),
    where: `history of all states, tracked column ${name}`,
    why: 'null, nothing and what looks like either are three values to a reader; the same value written again is none',
    remedy:
      'Compare tracked values as the contract does, by their type, null apart from every value, bytes by their content.',
  })
}

async function expectPrevious(
  context: CheckContext,
  dataset: Dataset,
  columns: readonly Column[],
  previous: ReadonlyMap<string, Value>,
  step: number,
): Promise<void> {
  const schema = shownSchema(
    dataset,
    columns.map((column) => ({ ...column, name: `previous_${column.name}` })),
  )
  const names = columns.map(({ name }) => `previous_${name}`)
  for (const [id, column] of columns.entries()) {
    const [row = []] = await rowsById(context, dataset, schema, BigInt(id), names)
    const at = indexOf({ ...schema, columns }, column.name)
    const wanted = previous.get(column.name) ?? null
    const isAlone = row.every((value, place) => place === at || value === null)
    expect(row.length === names.length && sameValue(column.type, wanted, row[at] ?? null) && isAlone, () => ({
      what: `after ${step + 1} writes previous_${column.name} is not the value before the last change`,
      expected: `${shown(wanted)}, and null for columns that never changed`,
      came: row.map(shown).join(', ') || 'no row',
      where: 'read of previous_ columns',
      why: 'readers see from it what a value was: null too, and nothing older, and nothing of columns that stayed',
      remedy: 'Keep the former value of a column when that column changes, whatever it was; leave the others.',
    }))
  }
}
