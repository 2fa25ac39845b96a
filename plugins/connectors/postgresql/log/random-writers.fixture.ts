/**
 * The proof that the first rows and the log after them are the source: writers who do everything at once, a reader that
 * stops anywhere and goes on from what it saved, and at the end the same rows on both sides.
 */
import assert from 'node:assert/strict'
import type { ChangeEvent, ChangePosition } from '@sluice/sdk'
import type { Client } from 'pg'
import { type LogWorld, NEVER, stream, Tables } from './log-world.fixture.ts'

export interface WritersOptions {
  readonly seed: number
  readonly writers: number
  /** Transactions of each writer. */
  readonly transactions: number
}

type Random = (below: number) => number

/** mulberry32: the same numbers for the same seed. */
export function randomOf(seed: number): Random {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below
  }
}

const STREAMS = [stream('plain', 'id'), stream('told_full', 'id', 'part'), stream('parted', 'id', 'part')]
const TABLES = STREAMS.map(({ table }) => table)

const TABLE = `id bigint NOT NULL, part int NOT NULL DEFAULT 0, word text, body text, tags text[], amount numeric,
  at timestamptz, raw bytea, doc json`

export async function makeTables({ sql, source }: LogWorld): Promise<void> {
  const owner = source.settings.user
  await sql(`CREATE SEQUENCE fresh; GRANT ALL ON SEQUENCE fresh TO ${owner};
    CREATE TABLE plain (${TABLE}, PRIMARY KEY (id)); CREATE TABLE told_full (${TABLE}, PRIMARY KEY (id, part));
    ALTER TABLE told_full REPLICA IDENTITY FULL;
    CREATE TABLE parted (${TABLE}, PRIMARY KEY (id, part)) PARTITION BY LIST (part);
    CREATE TABLE parted_0 PARTITION OF parted FOR VALUES IN (0); CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)`)
  for (const table of ['plain', 'told_full', 'parted_0', 'parted_1']) {
    await sql(`ALTER TABLE ${table} ALTER body SET STORAGE EXTERNAL; ALTER TABLE ${table} OWNER TO ${owner}`)
  }
  await sql(`ALTER TABLE parted OWNER TO ${owner}`)
  for (const table of TABLES) await sql(`${insertSql(table)} FROM generate_series(1, 40)`)
}

/** Keys are never given again. */
function insertSql(table: string): string {
  return `INSERT INTO ${table} (id, part, word, body, tags, amount, at, raw, doc)
    SELECT nextval('fresh'), 0, 'a "word", ' || random(), repeat(md5(random()::text), 100), ARRAY['x,"y"', NULL, ''],
      round((random() * 1e6)::numeric, 5), now(), decode(md5(random()::text), 'hex'), '{"a": "\\u00e4"}'`
}

function statement(table: string, random: Random): string {
  const some = `id IN (SELECT id FROM ${table} ORDER BY md5(id::text || ${random(1_000_000)}) LIMIT ${1 + random(3)})`
  const choices = [
    () => insertSql(table),
    () => `${insertSql(table)} FROM generate_series(1, ${1 + random(20)})`,
    () => `UPDATE ${table} SET word = 'then ${random(1000)}' WHERE ${some}`,
    () => `UPDATE ${table} SET word = NULL, tags = NULL, amount = -amount WHERE ${some}`,
    () => `UPDATE ${table} SET body = repeat(md5(random()::text), ${random(2) * 100}) WHERE ${some}`,
    () => `UPDATE ${table} SET id = nextval('fresh'), word = 'moved' WHERE ${some}`,
    () => `UPDATE ${table} SET part = 1 - part WHERE ${some}`,
    () => `DELETE FROM ${table} WHERE ${some}`,
  ]
  return choices[random(choices.length)]?.() ?? ''
}

function alteration(random: Random, count: number): string {
  const table = TABLES[random(TABLES.length)] ?? 'plain'
  const choices = [
    `ALTER TABLE ${table} ADD COLUMN extra_${count} int`,
    `ALTER TABLE ${table} ADD COLUMN extra_${count} text DEFAULT 'given'`,
    `ALTER TABLE ${table} ALTER word TYPE varchar USING word::varchar`,
    `ALTER TABLE ${table} RENAME word TO word_of; ALTER TABLE ${table} RENAME word_of TO word`,
    `ALTER TABLE ${table} ALTER amount TYPE numeric USING amount + 1`,
    `ALTER TABLE ${table} RENAME TO elsewhere; ALTER TABLE elsewhere RENAME TO ${table}`,
    `ALTER TABLE ${table} DROP COLUMN tags; ALTER TABLE ${table} ADD COLUMN tags text[] DEFAULT '{anew}'`,
    'ALTER TABLE told_full REPLICA IDENTITY DEFAULT',
    'ALTER TABLE told_full REPLICA IDENTITY FULL',
    'ALTER TABLE plain REPLICA IDENTITY USING INDEX plain_pkey',
    'ALTER TABLE parted DETACH PARTITION parted_1; DELETE FROM parted_1 WHERE id % 2 = 0; ALTER TABLE parted ATTACH PARTITION parted_1 FOR VALUES IN (1)',
    'TRUNCATE parted_1',
    'TRUNCATE plain, told_full, parted CASCADE',
    'DROP TABLE parted_1; CREATE TABLE parted_1 PARTITION OF parted FOR VALUES IN (1)',
    `TRUNCATE ${table}`,
  ]
  return choices[random(choices.length)] ?? ''
}

/** A transaction that the server gives up (a deadlock, a row that is gone) is none. */
async function write(client: Client, random: Random, transactions: number, alters: boolean): Promise<number> {
  let committed = 0
  for (let count = 0; count < transactions; count += 1) {
    const statements = ['BEGIN']
    for (let step = 0; step <= random(5); step += 1) {
      if (random(4) === 0) statements.push('SAVEPOINT there')
      const table = TABLES[random(TABLES.length)] ?? 'plain'
      statements.push(statement(table, random))
      if (statements.includes('SAVEPOINT there') && random(3) === 0) statements.push('ROLLBACK TO there')
    }
    if (alters && random(8) === 0) statements.push(alteration(random, count))
    statements.push(random(6) === 0 ? 'ROLLBACK' : 'COMMIT')
    try {
      for (const one of statements) await client.query(one)
      if (statements.at(-1) === 'COMMIT') committed += 1
    } catch {
      await client.query('ROLLBACK')
    }
  }
  return committed
}

/** Follows the log by pieces, as the runtime does, and stops where chance has it. */
class Follower {
  readonly #world: LogWorld
  readonly #random: Random
  readonly tables: Tables
  position: ChangePosition
  stops = 0
  readonly told = new Map<string, number>()
  /** By stream; of those that were read. */
  readonly #incarnations = new Map<number, string>()
  /** Before the log was last read to its end. */
  #before: readonly (string | undefined)[] | null = null
  /** What the log has of them is of before. */
  readonly #passed = new Set<number>()

  constructor(world: LogWorld, random: Random, position: ChangePosition) {
    this.#world = world
    this.#random = random
    this.tables = new Tables(world.connector, STREAMS)
    this.position = position
  }

  /** As a run begins: tables that are another by now, or were never read, are read whole once the log has been passed. */
  async prepare(isFirst = false): Promise<void> {
    const { refused, incarnations } = await this.#world.log.prepare({
      capture: 'random',
      streams: STREAMS,
      signal: NEVER,
    })
    assert.deepEqual(refused, [])
    const now = STREAMS.map(({ table }) => incarnations?.find((one) => one.table === table)?.incarnation)
    if (isFirst) this.#before = now
    for (const [index, incarnation] of now.entries()) {
      const known = this.#incarnations.get(index)
      if (known === incarnation) continue
      const before = this.#before?.[index]
      if (known !== undefined || before === undefined) {
        this.#passed.add(index)
        continue
      }
      await this.tables.readWhole([index])
      this.#incarnations.set(index, before)
      this.#passed.delete(index)
    }
    this.#before = null
    this.#now = now
  }

  get isCurrent(): boolean {
    return this.#passed.size === 0
  }

  #now: readonly (string | undefined)[] = []

  /** Of tables that are to be read whole nothing is known any more. */
  #applied(events: readonly ChangeEvent[]): void {
    this.tables.apply(events.filter((event) => event.kind === 'checkpoint' || !this.#passed.has(event.stream)))
    for (const index of this.tables.mustReread) this.#passed.add(index)
    for (const index of this.#passed) this.#incarnations.delete(index)
  }

  /** True: it came to the end. */
  async follow(): Promise<boolean> {
    const events: ChangeEvent[] = []
    let isLeft = false
    const request = { capture: 'random', after: this.position, streams: STREAMS, signal: NEVER }
    for await (const event of this.#world.log.changes(request)) {
      events.push(event)
      const what = event.kind === 'schema' && event.mustReread ? 'reread' : event.kind
      this.told.set(what, (this.told.get(what) ?? 0) + (event.kind === 'rows' ? event.rows : 1))
      if (this.#random(8) === 0) {
        this.stops += 1
        return false
      }
      if (event.kind !== 'checkpoint') continue
      this.#applied(events.splice(0))
      assert.ok(event.position.order >= this.position.order)
      this.position = event.position
      isLeft = this.#random(3) === 0
      if (isLeft) break
    }
    if (this.#random(4) !== 0) await this.#world.log.ack({ capture: 'random', position: this.position, signal: NEVER })
    if (!isLeft) this.#before = this.#now
    return !isLeft
  }
}

export interface Proof {
  readonly stops: number
  readonly committed: number
  /** Events by kind; rows each. */
  readonly told: ReadonlyMap<string, number>
}

export async function proveEqual(world: LogWorld, options: WritersOptions): Promise<Proof> {
  const random = randomOf(options.seed)
  const { position, refused } = await world.log.prepare({
    capture: 'random',
    streams: STREAMS,
    anew: true,
    signal: NEVER,
  })
  assert.deepEqual(refused, [])
  const follower = new Follower(world, random, position)
  await follower.prepare(true)
  let isWriting = true
  const clients = await Promise.all(Array.from({ length: options.writers }, () => world.source.session()))
  const writing = Promise.all(
    clients.map((client, index) =>
      write(client, randomOf(options.seed * 31 + index), options.transactions, index === 0),
    ),
  ).finally(() => {
    isWriting = false
  })
  while (isWriting) {
    await follower.prepare()
    await follower.follow()
  }
  const committed = (await writing).reduce((sum, count) => sum + count, 0)
  // Once to pass the log, once to read whole what it told to, and once to see that nothing is left.
  for (let pass = 0; pass < 3; pass += 1) {
    await follower.prepare()
    while (!(await follower.follow())) await follower.prepare()
  }
  assert.ok(follower.isCurrent)
  const now = new Tables(world.connector, STREAMS)
  await now.readWhole()
  assert.deepEqual(differences(follower.tables, now), [], `seed ${options.seed}`)
  await Promise.all(clients.map((client) => client.end()))
  return { stops: follower.stops, committed, told: follower.told }
}

const MAX_DIFFERENCES = 10

/** The first of them, value by value. */
function differences(ours: Tables, theirs: Tables): readonly string[] {
  const found: string[] = []
  for (const [index, { table }] of STREAMS.entries()) {
    const [have, want] = [ours.rows[index] ?? new Map(), theirs.rows[index] ?? new Map()]
    for (const key of have.keys()) if (!want.has(key)) found.push(`${table} ${key}: not at the source`)
    for (const [key, entry] of want) {
      const other = have.get(key)
      if (other === undefined) found.push(`${table} ${key}: missing`)
      for (const name of new Set([...Object.keys(entry), ...Object.keys(other ?? entry)])) {
        const [one, two] = [other?.[name], entry[name]].map((value) => value?.slice(0, 40) ?? String(value))
        if (other && other[name] !== entry[name]) found.push(`${table} ${key} ${name}: ${one}, not ${two}`)
      }
    }
  }
  return found.slice(0, MAX_DIFFERENCES)
}
