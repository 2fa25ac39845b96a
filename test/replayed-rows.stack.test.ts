/**
 * Rows that were put aside are tried again when their column holds them, while files come, change and go, and the runtime is killed
 * wherever it works on them. What the raw table has is what an account of every file says, and each row counts once.
 */
import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { type Client, type Json, manifests, ok } from '../acceptance/client.ts'
import { placeTestCluster } from '../runtime/src/database/testing.ts'
import { REPLAY_FAULT_POINTS } from '../runtime/src/fault-points.ts'
import { RuntimeProcess } from './crash/runtime-process.ts'
import { adminOf, makeTenant, personOf, servedAt } from './first-steps.ts'

const COLUMNS = `  - { name: id, type: long, role: identity, nullable: false }
  - { name: n, type: string }
`

let folder: string
let files: string
let config: string
let data: string
let runtime: RuntimeProcess
let url: string
let developer: Client
let colleague: Client
let viewer: Client
let stranger: Client
let random = 7

/** Numbers below `count`, the same in every run. */
function any(count: number): number {
  random = (random * 1_103_515_245 + 12_345) % 2_147_483_648
  return Math.floor((random / 2_147_483_648) * count)
}

async function start(fault: string | null): Promise<void> {
  await placeTestCluster(data)
  runtime = await RuntimeProcess.spawn(data, fault, 0, config)
  url = await servedAt(runtime)
  developer = await personOf({ url, data }, 'dora')
  colleague = await personOf({ url, data }, 'carl')
  viewer = await personOf({ url, data }, 'vera', { group: 'svc-viewers' })
  stranger = await personOf({ url, data }, 'gus', { tenant: 'globex' })
}

before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-replayed-'))
  await chmod(folder, 0o755)
  files = join(folder, 'files')
  await mkdir(files)
  config = join(folder, 'sluice.yaml')
  const folders = `folders: { allow: { acme: [${JSON.stringify(files)}] } }\n`
  await writeFile(config, `upkeep: { compare_minutes: 0 }\n${folders}`)
  data = join(folder, 'data')
  await start(null)
  const admin = await adminOf({ url, data })
  for (const slug of ['acme', 'globex']) await makeTenant(admin, slug)
})

after(async () => {
  await runtime?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** One line of a file: `n` is a number where the column holds it, `d` a day that no column holds where it is odd. */
interface Line {
  readonly id: number
  readonly at: number | null
  readonly n: string
  readonly d: string
}

/** A value that was put aside. */
interface Aside {
  readonly line: Line
  /** Of the read that put it aside, and its place there. */
  readonly read: number
  readonly place: number
}

/** A row of the raw table, and whether it is there without a value. */
interface Held {
  readonly line: Line
  readonly lacks: boolean
  readonly n: string | null
}

/** Of each key the line that counts. */
function newestIn(lines: readonly Line[]): ReadonlyMap<number, Line> {
  const newest = new Map<number, Line>()
  for (const line of lines) {
    const known = newest.get(line.id)
    if (known === undefined || (line.at ?? -1) >= (known.at ?? -1)) newest.set(line.id, line)
  }
  return newest
}

/** What the raw table and the quarantine have, by an account that shares no code with the runtime. */
class Account {
  readonly table = new Map<number, Held>()
  readonly there = new Map<string, readonly Line[]>()
  aside: Aside[] = []
  holdsTexts = false
  reads = 0
  readonly sweeps: boolean

  constructor(sweeps: boolean) {
    this.sweeps = sweeps
  }

  holdsN = ({ n }: Line) => this.holdsTexts || /^\d+$/.test(n)
  holdsD = ({ d }: Line) => /^\d{4}-\d\d-\d\d$/.test(d)
  fits = (line: Line) => this.holdsN(line) && this.holdsD(line)

  /** A sync that reads new files; and all others again where these do not have the newest state of a key that there is. */
  sync(names: readonly string[]): void {
    const before = new Map(this.table)
    const came = newestIn(names.flatMap((name) => this.there.get(name) ?? []))
    this.read(names)
    if (!this.sweeps || !this.isOutdated(before, came)) return
    // Whatever was put aside before is there to be read again, or gone.
    this.aside = []
    this.read([...this.there.keys()])
  }

  isOutdated(before: ReadonlyMap<number, Held>, came: ReadonlyMap<number, Line>): boolean {
    const isNewer = (one: number, other: number | null) => other === null || one > other
    return [...before].some(([id, { line: held }]) => {
      const lines = [...this.there.values()].flat().filter((line) => line.id === id)
      const there = lines.flatMap(({ at }) => (at === null ? [] : [at]))
      const now = came.get(id)
      if (held.at === null) return false
      const most = held.at
      if (now !== undefined) return there.some((at) => at <= most && isNewer(at, now.at))
      return there.length > 0 && there.every((at) => at < most)
    })
  }

  /** Who does not look for rows that are gone sees their states in any order: an older one takes no newer one's place. */
  isLate({ id, at }: Line): boolean {
    const held = this.table.get(id)
    return !this.sweeps && held !== undefined && (at ?? -1) < (held.line.at ?? -1)
  }

  read(names: readonly string[]): void {
    this.reads += 1
    const lines = names.flatMap((name) => this.there.get(name) ?? [])
    const newest = newestIn(lines)
    const aside: Aside[] = []
    for (const line of lines) {
      const faults = [this.holdsN(line), this.holdsD(line)].filter((holds) => !holds)
      for (const _ of faults) aside.push({ line, read: this.reads, place: aside.length })
    }
    const again = new Set(aside.map(({ line }) => line.id))
    this.aside = [...this.aside.filter(({ line }) => !again.has(line.id)), ...aside]
    for (const [id, line] of newest)
      if (!this.isLate(line))
        this.table.set(id, { line, lacks: !this.fits(line), n: this.holdsN(line) ? line.n : null })
    if (!this.sweeps) return
    const has = (id: number) => [...this.there.values()].some((lines) => lines.some((line) => line.id === id))
    for (const id of this.table.keys()) if (!has(id)) this.table.delete(id)
  }

  /** What a replay of the oldest so many does. */
  replay(limit: number): { readonly read: number; readonly applied: number; readonly superseded: number } {
    const order = (one: Aside, other: Aside) => one.read - other.read || one.place - other.place
    const newer = (one: Aside, other: Aside) => (other.line.at ?? -1) - (one.line.at ?? -1) || order(other, one)
    const chosen = new Set(this.aside.toSorted(order).slice(0, limit))
    const able = this.aside.filter(({ line }) => this.fits(line))
    const done = new Set<Aside>()
    let applied = 0
    for (const [id, rows] of Map.groupBy(able, ({ line }) => line.id)) {
      for (const [rank, one] of rows.toSorted(newer).entries()) {
        if (!chosen.has(one)) continue
        done.add(one)
        const held = this.table.get(id)
        if (rank > 0 || held?.line !== one.line || !held.lacks) continue
        this.table.set(id, { line: one.line, lacks: false, n: one.line.n })
        applied += 1
      }
    }
    this.aside = this.aside.filter((one) => !done.has(one))
    return { read: chosen.size, applied, superseded: done.size - applied }
  }
}

const typesOf = (n: string) =>
  Object.entries({ id: 'long', at: 'long', n, d: 'date' }).map(([name, type]) => ({ name, type }))
const settingsOf = (name: string, n: string) =>
  JSON.stringify({
    folder: files,
    tables: {
      orders: {
        ...{ glob: `${name}/*.csv`, format: 'csv', primary_key: ['id'], cursor_column: 'at' },
        columns: typesOf(n),
      },
    },
  })

async function putFile(account: Account, source: string, name: string, lines: readonly Line[]): Promise<void> {
  account.there.set(name, lines)
  const text = lines.map(({ id, at, n, d }) => `${id},${at ?? ''},${n},${d}\n`).join('')
  await writeFile(join(files, source, name), `id,at,n,d\n${text}`, { mode: 0o644 })
}

const anyLine = (): Line => ({
  id: any(25),
  at: any(12) === 0 ? null : any(40),
  n: any(3) === 0 ? `x${any(100)}` : String(any(100)),
  d: any(12) === 0 ? 'some day' : '2026-01-02',
})

async function openSource(source: string, deletes: string): Promise<void> {
  const config_encrypted = settingsOf(source, 'long')
  await ok(developer.post('/api/v1/connections', { name: source, connector_type: 'files', config_encrypted }))
  await ok(
    developer.post('/api/v1/products', {
      ...{ name: source, namespace: 'crm', archetype: 'source_aligned', description: '' },
    }),
  )
  await ok(writeAndDeploy(source, deletes))
}

async function writeAndDeploy(source: string, deletes: string) {
  const endpoints = '  - type: lookup\n    config: { index_columns: [id] }\n'
  const texts = manifests('files.orders', { columns: COLUMNS, endpoints })
  const upload = {
    ...texts,
    product: texts.product.replace('name: people', `name: ${source}`),
    inputs: texts.inputs
      .replace('connection: db', `connection: ${source}`)
      .replace('mode: full', `mode: incremental, ${deletes}`),
    quality: 'apiVersion: svc/v1\nkind: Quality\nmax_rejected: { share: 100%, rows: 100000 }\nchecks: []\n',
  }
  await ok(developer.upload(`/api/v1/products/${source}/manifests`, upload))
  return developer.post(`/api/v1/products/${source}/deploy`, { version: '1.0.0' })
}

async function run(path: string, body?: unknown): Promise<Json> {
  const { id } = await ok(developer.post(path, body))
  const ended = await developer.untilEnded(id)
  assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
  return ended
}

const sync = (source: string) => run(`/api/v1/connections/${source}/sync`)

async function rawRows(source: string): Promise<readonly Json[]> {
  const sql = `SELECT CAST(id AS INTEGER), CAST("at" AS INTEGER), CAST(n AS VARCHAR) FROM raw_${source}."files.orders" ORDER BY id`
  return (await ok(developer.post('/api/v1/query', { sql, limit: 1000 }))).rows
}

async function quarantine(source: string): Promise<readonly Json[]> {
  return (await ok(developer.get(`/api/v1/connections/${source}/quarantine?limit=1000`))).data
}

async function check(account: Account, source: string, when: string): Promise<void> {
  const held = [...account.table.values()].toSorted((one, other) => one.line.id - other.line.id)
  assert.deepEqual(
    await rawRows(source),
    held.map(({ line, n }) => [line.id, line.at, n]),
    when,
  )
  assert.deepEqual(
    (await quarantine(source)).map((row) => String(row.key.id)).toSorted(),
    account.aside.map(({ line }) => String(line.id)).toSorted(),
    when,
  )
  const { data: rows } = await ok(viewer.get(`/api/v1/products/${source}/latest?limit=1000`))
  assert.deepEqual(
    rows.map(({ id, n }: Json) => [Number(id), n]).toSorted(([one]: Json, [other]: Json) => one - other),
    held.flatMap(({ line, n }) => (n === null ? [] : [[line.id, n]])),
    `${when}: what is served`,
  )
}

const SOURCES = [
  { source: 'swept', deletes: 'deletes: key_sweep', sweeps: true, points: REPLAY_FAULT_POINTS },
  {
    source: 'kept',
    deletes: 'deletes: unseen, deletes_reason: files are moved away',
    sweeps: false,
    points: ['replay.committed'],
  },
] as const

for (const { source, deletes, sweeps, points } of SOURCES) {
  describe(`rows put aside of a source whose rows are ${source}`, () => {
    const account = new Account(sweeps)

    it('come and go as files do', async () => {
      await mkdir(join(files, source))
      for (let step = 0; step < 8; step += 1) {
        // Rows leave with their file: some of them were put aside, or had come after one that was.
        const [oldest] = account.there.keys()
        if (step > 3 && oldest !== undefined) {
          account.there.delete(oldest)
          await rm(join(files, source, oldest))
        }
        const name = `f${step}.csv`
        await putFile(account, source, name, Array.from({ length: 14 }, anyLine))
        // Its columns are looked at when the product is deployed.
        if (step === 0) await openSource(source, deletes)
        await sync(source)
        account.sync([name])
      }
      await check(account, source, 'as it was read')
      assert.ok(account.aside.length > 20, 'rows were put aside')
    })

    it('stay where they are as long as their column is what it was', async () => {
      const ended = await run(`/api/v1/connections/${source}/quarantine/replay`, { table: 'files.orders' })
      assert.equal(ended.replay, true)
      const told = account.replay(1000)
      assert.deepEqual([told.applied, told.superseded], [0, 0])
      assert.deepEqual(counts(ended), [account.aside.length, 0, 0, account.aside.length])
      await check(account, source, 'nothing was mended')
    })

    it('come when it is mended, each once, whatever is killed when', async () => {
      const config_encrypted = settingsOf(source, 'string')
      await ok(
        developer.send(`/api/v1/connections/${source}`, {
          method: 'PATCH',
          headers: { 'content-type': 'application/json' },
          body: JSON.stringify({ config_encrypted }),
        }),
      )
      account.holdsTexts = true
      await check(account, source, 'settings of other types are of the same source')
      for (const point of points) {
        await runtime.stop()
        await start(`${point}@1`)
        const limit = 3 + any(4)
        const body = { table: 'files.orders', limit }
        const { id } = await ok(developer.post(`/api/v1/connections/${source}/quarantine/replay`, body))
        assert.equal((await runtime.ended).signal, 'SIGKILL', `it was killed at ${point}`)
        await start(null)
        const ended = await developer.untilEnded(id)
        assert.equal(ended.state, 'succeeded', JSON.stringify(ended))
        const { read, applied, superseded } = account.replay(limit)
        assert.deepEqual(counts(ended), [read, applied, superseded, read - applied - superseded], point)
        await check(account, source, `killed at ${point}`)
      }
    })

    it('come once where two ask at once, and a third time brings nothing', async () => {
      const ask = (limit: number) =>
        ok(developer.post(`/api/v1/connections/${source}/quarantine/replay`, { table: 'files.orders', limit }))
      const asked = await Promise.all([ask(1000), ask(999)])
      const ended = await Promise.all(asked.map(({ id }) => developer.untilEnded(id)))
      const told = account.replay(1000)
      const sum = (at: number) => ended.map((one) => counts(one)[at] as number).reduce((a, b) => a + b)
      assert.deepEqual([sum(1), sum(2)], [told.applied, told.superseded])
      await check(account, source, 'two at once')
      const left = account.aside.length
      assert.deepEqual(counts(await developer.untilEnded((await ask(1000)).id)), [left, 0, 0, left])
      await check(account, source, 'a third time')
    })

    it('are given up one by one, or all that are left', async () => {
      const left = await quarantine(source)
      const path = `/api/v1/connections/${source}/quarantine/discard`
      const one = { table: 'files.orders', ids: [left[0]?.id] }
      assert.deepEqual(await ok(developer.post(path, one)), { discarded: 1 })
      assert.deepEqual(refused(await developer.post(path, one)), [404, 'quarantined_row_not_found'])
      assert.deepEqual(await ok(developer.post(path, { table: 'files.orders' })), { discarded: left.length - 1 })
      assert.deepEqual(await quarantine(source), [])
    })
  })
}

/** Read, applied, superseded, still put aside. */
function counts(ended: Json): readonly number[] {
  const [table] = ended.tables
  return [table.rows_read, table.rows_written, table.rows_superseded, table.rows_rejected]
}

const refused = ({ status, body }: { readonly status: number; readonly body: Json }) => [status, body.code]

it('asks for the rights of a sync, and for those of a reader where rows are named', async () => {
  await putFile(new Account(true), 'swept', 'last.csv', [
    { id: 900, at: 1, n: '1', d: 'never' },
    { id: 901, at: 1, n: '1', d: 'nor ever' },
  ])
  await sync('swept')
  const replay = '/api/v1/connections/swept/quarantine/replay'
  const discard = '/api/v1/connections/swept/quarantine/discard'
  const all = { table: 'files.orders' }
  const ids = (await quarantine('swept')).map(({ id }) => id).slice(0, 1)
  assert.equal((await viewer.post(replay, {})).status, 403)
  assert.equal((await stranger.post(replay, {})).status, 404)
  assert.equal((await colleague.post(replay, {})).status, 202)
  assert.deepEqual(refused(await colleague.post(replay, { ids })), [404, 'quarantined_row_not_found'])
  assert.deepEqual(refused(await colleague.post(discard, all)), [403, 'raw_table_forbidden'])
  assert.equal((await viewer.post(discard, all)).status, 403)
  assert.equal((await stranger.post(discard, all)).status, 404)
  // Numbers of a raw table are its readers'.
  const { id } = await ok(developer.post(replay, { ids }))
  const ended = await developer.untilEnded(id)
  assert.deepEqual(counts(ended), [1, 0, 0, 1])
  const text = JSON.stringify([ended, await ok(developer.get('/api/v1/audit?limit=20'))])
  assert.doesNotMatch(text, /nor ever|never/)
  assert.deepEqual(refused(await developer.post(replay, { table: 'files.others' })), [400, 'table_not_ingested'])
})
