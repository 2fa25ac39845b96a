/** Holds everything the runtime keeps against what the script of changes must have left. */
import { strict as assert } from 'node:assert'
import type { Api } from './api.ts'
import { type CommittedEpoch, lookupRows, type RegistryFacts, registryFacts } from './databases.ts'
import { DOMAINS, type Readers } from './readers.ts'
import type { Content, Expected, Row } from './source.ts'

type Table = readonly (readonly string[])[]

/** The hash of each value that readers without clearance were shown: the same in every epoch and store. */
export type KnownHashes = Map<string, string>

export interface Checked {
  readonly dataFolder: string
  readonly readers: Readers
  /** By epoch, the first at index 0. */
  readonly expected: readonly Expected[]
  readonly hashes: KnownHashes
}

/** `since`: the first epoch to read from the lake; stores and registry are always compared as a whole. */
export async function checkEverything(world: Checked, since: number): Promise<void> {
  const facts = await registryFacts(world.dataFolder)
  checkRegistry(facts, world.expected.length)
  for (const { product, epoch, snapshot } of facts.epochs) {
    if (epoch >= since) await checkLake(world, product, epoch, snapshot)
  }
  const times = (product: string) => facts.epochs.filter((one) => one.product === product).map((one) => one.committedAt)
  await checkHistory(world, times('people'))
  await checkVisits(world)
  await checkRealtime(world)
}

/** One epoch for each run and product, announced once, and every store at the newest. */
function checkRegistry(facts: RegistryFacts, runCount: number): void {
  assert.deepEqual(
    facts.runs.filter((run) => run.state !== 'succeeded'),
    [],
    'runs that did not succeed',
  )
  assert.equal(facts.runs.length, runCount, 'runs')
  for (const product of ['people', 'visits', 'reach'] as const) {
    const own: readonly CommittedEpoch[] = facts.epochs.filter((one) => one.product === product)
    assert.deepEqual(
      own.map((one) => one.epoch),
      facts.runs.map((_, index) => index + 1),
      `${product}: epochs`,
    )
    assert.deepEqual(
      own.map((one) => one.runId),
      facts.runs.map((run) => run.id),
      `${product}: one epoch a run, in the order of the runs`,
    )
  }
  assert.equal(facts.announced, facts.epochs.length, 'commits that were announced')
  for (const state of facts.endpoints) assert.equal(state.epoch, runCount, `${state.endpoint} ${state.variant}`)
}

const COLUMNS = {
  people: ['person_no', 'full_name', 'email', 'city', 'plan'],
  visits: ['visit_no', 'seen_at', 'pages'],
  reach: ['person_no', 'city', 'pages'],
} as const

function tableOf(content: Content, columns: readonly string[]): Table {
  return sorted([...content.values()].map((row) => columns.map((name) => row[name] as string)))
}

function sorted(rows: Table): Table {
  return [...rows].sort((a, b) => (a.join('\0') < b.join('\0') ? -1 : 1))
}

async function queried(api: Api, sql: string, snapshot: string): Promise<Table> {
  const answer = await api.post<{ rows: readonly (readonly unknown[])[] }>('/api/v1/query', { sql, as_of: snapshot })
  return sorted(answer.rows.map((row) => row.map(String)))
}

async function checkLake(world: Checked, product: keyof Expected, epoch: number, snapshot: string): Promise<void> {
  const expected = world.expected[epoch - 1]?.[product] as Content
  const sql = `SELECT ${COLUMNS[product].join(', ')} FROM ${DOMAINS[product]}.${product}`
  const where = `lake, ${product}, epoch ${epoch}`
  assert.deepEqual(
    await queried(world.readers.cleared, sql, snapshot),
    tableOf(expected, COLUMNS[product]),
    `${where}, clear`,
  )
  const shown = await queried(world.readers.viewer, sql, snapshot)
  if (product === 'people') learnHashes(world.hashes, shown, expected)
  assert.deepEqual(shown, tableOf(masked(world, product, expected), COLUMNS[product]), `${where}, masked`)
}

function learnHashes(hashes: KnownHashes, shown: Table, expected: Content): void {
  for (const [number, , hash] of shown) {
    const email = expected.get(number as string)?.['email']
    assert.match(hash as string, /^[0-9a-f]{32}$/)
    if (email !== undefined && !hashes.has(email)) hashes.set(email, hash as string)
  }
}

function masked(world: Checked, product: keyof Expected, content: Content): Content {
  if (product !== 'people') return content
  return new Map([...content].map(([key, row]) => [key, maskedRow(world, row)]))
}

function maskedRow(world: Checked, row: Row): Row {
  return { ...row, full_name: '[redacted]', email: world.hashes.get(row['email'] as string) as string }
}

interface Period {
  row: Row
  readonly from: string
  to: string
}

/** type_2 over the tracked column `plan`, as a fold over epochs. */
function historyOf(epochs: readonly Content[], times: readonly string[]): readonly Period[] {
  const closed: Period[] = []
  const open = new Map<string, Period>()
  for (const [index, content] of epochs.entries()) {
    const at = times[index] as string
    for (const [key, period] of [...open]) {
      const now = content.get(key)
      if (now?.['plan'] === period.row['plan']) period.row = now as Row
      else {
        closed.push({ ...period, to: at })
        open.delete(key)
      }
    }
    for (const [key, row] of content) if (!open.has(key)) open.set(key, { row, from: at, to: 'open' })
  }
  return [...closed, ...open.values()]
}

async function checkHistory(world: Checked, times: readonly string[]): Promise<void> {
  const epochs = world.expected.map((one) => one.people)
  const instant = (name: string) => `to_char(${name} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"')`
  const select = `person_no::text, ${instant('valid_from')}, coalesce(${instant('valid_to')}, 'open'), is_current::text,
    full_name, email, city, plan`
  for (const variant of ['clear', 'masked']) {
    const contents = variant === 'clear' ? epochs : epochs.map((content) => masked(world, 'people', content))
    const expected = historyOf(contents, times).map(({ row, from, to }) => [
      ...[row['person_no'], from, to, String(to === 'open')],
      ...[row['full_name'], row['email'], row['city'], row['plan']],
    ])
    const rows = await lookupRows(world.dataFolder, 'people', variant, select)
    assert.deepEqual(sorted(rows), sorted(expected as Table), `history of people, ${variant}`)
  }
}

async function checkVisits(world: Checked): Promise<void> {
  const expected = tableOf(world.expected.at(-1)?.visits as Content, COLUMNS.visits)
  const select = `visit_no::text, to_char(seen_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), pages::text`
  assert.deepEqual(sorted(await lookupRows(world.dataFolder, 'visits', 'clear', select)), expected, 'lookup of visits')
  const range = 'from=2025-12-01&to=2027-12-31'
  const answer = await world.readers.viewer.get<{ data: readonly Row[] }>(
    `/api/v1/products/visits/timeseries?${range}&limit=1000`,
  )
  const rows = answer.data.map((row) => COLUMNS.visits.map((name) => String(row[name])))
  assert.deepEqual(sorted(rows), expected, 'timeseries of visits')
  const days = await world.readers.viewer.get<{ data: readonly Row[] }>(
    `/api/v1/products/visits/timeseries?${range}&interval=1%20day&limit=1000`,
  )
  assert.deepEqual(pagesByDay(days.data), expectedPagesByDay(expected), 'daily aggregate of visits')
}

function pagesByDay(rows: readonly Row[]): Table {
  return sorted(
    rows.map((row) => [String(row['bucket']).slice(0, 10), String(Number(row['pages_sum'] ?? row['sum_pages']))]),
  )
}

function expectedPagesByDay(rows: Table): Table {
  const days = new Map<string, number>()
  for (const [, at, pages] of rows) {
    const day = (at as string).slice(0, 10)
    days.set(day, (days.get(day) ?? 0) + Number(pages))
  }
  return sorted([...days].map(([day, pages]) => [day, String(pages)]))
}

const HIGHEST_PERSON = 40

/** Every key that ever was: there with its newest value, or gone. */
async function checkRealtime(world: Checked): Promise<void> {
  const newest = world.expected.at(-1)?.people as Content
  const columns = ['person_no', 'full_name', 'plan'] as const
  for (let number = 1; number <= HIGHEST_PERSON; number += 1) {
    const row = newest.get(String(number))
    for (const [reader, seen] of [
      [world.readers.cleared, row],
      [world.readers.viewer, row && maskedRow(world, row)],
    ] as const) {
      const { status, body } = await reader.ask(`/api/v1/products/people/realtime?key=person:${number}`)
      const { data } = body as { readonly data?: Row | readonly Row[] }
      const value = (Array.isArray(data) ? data[0] : data) as Row | undefined
      const shown = status === 404 || !value ? undefined : columns.map((name) => String(value[name]))
      assert.deepEqual(shown, seen && columns.map((name) => seen[name]), `realtime, person ${number}, status ${status}`)
    }
  }
}
