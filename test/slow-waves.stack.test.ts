/**
 * Worlds made up by a seed: products in layers over tables that rows are pushed to, some of which pass for slow, in a runtime that is
 * killed wherever it is. In the end each has what it would be if it were computed now, by sums that know nothing of the runtime; and what
 * is told to be of the same rows is.
 */
import assert from 'node:assert/strict'
import { after, it } from 'node:test'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Json } from '../acceptance/client.ts'
import { PushedWorld } from './pushed-world.ts'
import { until } from './until.ts'

const SEED = Number(process.env['SLUICE_TEST_SEED'] ?? Date.now() % 1_000_000)
const TABLES = ['t0', 't1', 't2'] as const
const [PRODUCTS, ROUNDS, KEYS, PUSHES, FAULT_POINTS, ROUND_MS] = [7, 4, 4, 3, 120, 3_000]

let state = SEED >>> 0
/** Below `bound`, the same in every run of the seed. */
function any(bound: number): number {
  state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
  return Math.floor((state / 2 ** 32) * bound)
}

interface Made {
  readonly name: string
  readonly inputs: readonly string[]
  readonly latest: readonly string[]
  readonly plus: number
}

/** Each of one or two tables or products before it. */
function madeUp(): readonly Made[] {
  const made: Made[] = []
  for (let at = 0; at < PRODUCTS; at += 1) {
    const before = [...TABLES, ...made.map(({ name }) => `crm.${name}`), ...made.map(({ name }) => `crm.${name}`)]
    const pick = () => before[any(at < 2 ? TABLES.length : before.length)] as string
    const inputs = [...new Set([pick(), ...(any(2) === 0 ? [pick()] : [])])]
    const latest = inputs.filter((one) => one.startsWith('crm.') && any(6) === 0)
    made.push({ name: `p${at}`, inputs, latest, plus: any(100) })
  }
  return made
}

type Values = ReadonlyMap<number, number>

/** What the product is by these rows of the tables. */
function computed(name: string, made: readonly Made[], tables: ReadonlyMap<string, Values>): Values {
  const table = tables.get(name)
  if (table !== undefined) return table
  const one = made.find((other) => `crm.${other.name}` === name) as Made
  const [first, second] = one.inputs.map((input) => computed(input, made, tables)) as [Values, Values | undefined]
  const found = [...first].flatMap(([id, v]) => {
    if (second === undefined) return [[id, v + one.plus] as const]
    const other = second.get(id)
    return other === undefined ? [] : [[id, 3 * v + other + one.plus] as const]
  })
  return new Map(found)
}

const text = (values: Values | null) => JSON.stringify([...(values ?? [])].toSorted(([one], [other]) => one - other))

/** Of each table what it has been, the newest last. */
const history = new Map<string, Values[]>(TABLES.map((table) => [table, []]))

let world: PushedWorld
after(() => world?.stop())

async function push(table: string): Promise<void> {
  const versions = history.get(table) as Values[]
  const rows = new Map(versions.at(-1) ?? Array.from({ length: KEYS }, (_, id) => [id, 0] as const))
  for (const id of rows.keys()) if (versions.length === 0 || any(2) === 0) rows.set(id, any(1_000))
  // A run may take it before the answer is here.
  versions.push(rows)
  await world.push(
    table,
    [...rows].map(([id, v]) => ({ id, v })),
  )
}

/** Whether there is a moment at which both were just this: of each table a state that it has had. */
function isOfOneMoment(shown: ReadonlyMap<string, string>, made: readonly Made[]): boolean {
  const choices = (rest: readonly string[], chosen: ReadonlyMap<string, Values>): boolean => {
    const [table, ...others] = rest
    if (table === undefined) return [...shown].every(([name, rows]) => text(computed(name, made, chosen)) === rows)
    return (history.get(table) as Values[]).some((values) => choices(others, new Map([...chosen, [table, values]])))
  }
  return choices(TABLES, new Map())
}

/** Those that take nothing as it is, whatever the others rest on. */
function strict(made: readonly Made[]): readonly Made[] {
  const isStrict = (name: string): boolean => {
    const one = made.find((other) => `crm.${other.name}` === name)
    return one === undefined || (one.latest.length === 0 && one.inputs.every(isStrict))
  }
  return made.filter(({ name }) => isStrict(`crm.${name}`))
}

let told = 0

async function read(made: readonly Made[]): Promise<void> {
  const all = strict(made)
  const names = [all[any(all.length)], all[any(all.length)]].map((one) => `crm.${(one as Made).name}`)
  const sql = names.map((name, at) => `SELECT ${at} AS n, id, v FROM ${name}`).join(' UNION ALL ')
  const answer = await world.developer.post('/api/v1/query', { sql }).catch(() => null)
  if (answer === null || answer.status >= 300 || answer.body.meta.consistent !== true) return
  told += 1
  const rows = answer.body.rows.map((row: Json) => Object.values(row).map(Number)) as readonly [
    number,
    number,
    number,
  ][]
  const shown = new Map(
    names.map((name, at) => [name, text(new Map(rows.flatMap(([n, id, v]) => (n === at ? [[id, v]] : []))))]),
  )
  assert.ok(
    isOfOneMoment(shown, made),
    JSON.stringify({ shown: [...shown], history: [...history].map(([table, all]) => [table, all.map(text)]) }),
  )
}

it(`whatever a wave leaves comes to its end, wherever the runtime is killed (seed ${SEED})`, async (context) => {
  const made = madeUp()
  context.diagnostic(JSON.stringify(made))
  world = await PushedWorld.open(TABLES)
  for (const table of TABLES) await push(table)
  for (const { name, inputs, latest, plus } of made) {
    const transform =
      inputs.length === 1
        ? `SELECT id, v + ${plus} AS v FROM a`
        : `SELECT a.id, 3 * a.v + b.v + ${plus} AS v FROM a JOIN b ON b.id = a.id`
    await world.deploy({ name, inputs, latest, transform })
  }
  // What is deployed while its input is made for the first time follows with the next rows.
  for (const table of TABLES) await push(table)
  await becomesComputed(made)
  for (let round = 0; round < ROUNDS; round += 1) {
    const slow = made.filter(() => any(3) === 0)
    for (const { name } of made) await world.take(name, slow.some((one) => one.name === name) ? 60_000 : 300)
    const [endsMs, fault] = [any(ROUND_MS), any(2) === 0 ? `any@${1 + any(FAULT_POINTS)}` : null]
    const { runtime } = world
    const ended = sleep(endsMs).then(() => runtime.kill())
    for (let pushed = 0; pushed < PUSHES; pushed += 1) {
      await push(TABLES[any(3)] as string)
      await read(made)
    }
    await ended
    await world.restart(fault)
    // It may end once more, at a point of its own.
    await push(TABLES[any(3)] as string)
    await becomesComputed(made)
  }
  const left = (await world.found(`select from runs where input ? 'left'`)).length
  context.diagnostic(`${left} times somebody was left to a run of his own; ${told} answers were of one moment`)
  await until(
    'nobody is at anything',
    async () => (await world.found(`select from runs where state in ('queued', 'running')`)).length === 0,
  )
  assert.deepEqual(await world.found(`select error from runs where input ? 'left' and state = 'failed'`), [])
})

async function becomesComputed(made: readonly Made[]): Promise<void> {
  const tables = new Map([...history].map(([table, versions]) => [table, versions.at(-1) as Values]))
  const wanted = new Map(made.map(({ name }) => [name, text(computed(`crm.${name}`, made, tables))]))
  let seen: unknown
  await until(
    () => JSON.stringify({ wanted: [...wanted], seen }),
    async () => {
      if (world.runtime.isEnded) await world.start(null)
      await read(made)
      const found = await Promise.all(made.map(async ({ name }) => [name, text(await world.rows(name))] as const))
      seen = found
      return found.every(([name, rows]) => rows === wanted.get(name))
    },
  )
}
