/** What a wave has done, looked at past the runtime: by the files and the databases that it leaves. */
import { globSync } from 'node:fs'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { DuckDBInstance } from '@duckdb/node-api'
import type pg from 'pg'
import { processorOf } from '../../bench/setup.ts'
import { withDatabase } from '../../test/crash/databases.ts'
import { type JobLine, productIn } from './engine-jobs.ts'
import type { HeldRows } from './oracle.ts'
import type { World } from './world.ts'

/** Lines of the engine, by which a job is known to be work on a product. */
export class Jobs {
  readonly folder: string
  #seen = 0

  private constructor(folder: string) {
    this.folder = folder
  }

  static async in(folder: string): Promise<Jobs> {
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'jobs.ndjson'), '')
    return new Jobs(folder)
  }

  /** Those that were begun since this was asked last. */
  async since(): Promise<readonly JobLine[]> {
    const text = await readFile(join(this.folder, 'jobs.ndjson'), 'utf8')
    const lines = text.split('\n').filter((one) => one !== '')
    const found = lines.slice(this.#seen).map((one) => JSON.parse(one) as JobLine)
    this.#seen = lines.length
    return found
  }
}

/** Rows of parquet files. */
export async function rowsIn(files: readonly string[]): Promise<number> {
  if (files.length === 0) return 0
  const database = await DuckDBInstance.create(':memory:')
  const connection = await database.connect()
  try {
    const list = files.map((file) => `'${file}'`).join(', ')
    const counted = await connection.run(`SELECT sum(num_rows) FROM parquet_file_metadata([${list}])`)
    return Number((await counted.getRowsJson())[0]?.[0] ?? 0)
  } finally {
    connection.closeSync()
    database.closeSync()
  }
}

/** Whether a job is about the product alone: it writes for it, or reads nothing but what is its own. */
export function isWorkOn(name: string, { files, dirs }: JobLine): boolean {
  if (dirs.some((dir) => productIn(dir) === name)) return true
  return files.length > 0 && files.every((file) => productIn(file) === name)
}

/** Paths of the files in the lake, by product: what is there is never written again. */
export function lakeFiles(world: World): ReadonlyMap<string, readonly string[]> {
  const folder = join(world.folder, 'lake')
  const files = globSync('**/*.*', { cwd: folder }).map((file) => join(folder, file))
  const found = Map.groupBy(files.sort(), productIn)
  return new Map([...found].flatMap(([name, own]) => (name === null ? [] : [[name, own] as const])))
}

export interface Held {
  readonly epoch: number
  /** Copies that are not at the newest epoch. */
  readonly behind: number
  /** All that the registry says of its epochs and of its copies in stores. */
  readonly registered: string
  /** Each row of its copy with its place and the transaction that wrote it. */
  readonly stored: string
  /** Its files in the lake. */
  readonly files: string
}

/** By product; read by the superusers of the databases, and not by the runtime. */
export async function heldBy(world: World): Promise<ReadonlyMap<string, Held>> {
  const registered = await withDatabase(world.folder, 'sluice_registry', async (client) =>
    rowsOf<{ name: string; epoch: number; text: string; behind: number }>(
      client,
      `select p.name, coalesce(max(m.epoch), 0)::int as epoch,
         string_agg(concat_ws(' ', m.epoch, m.run_id, m.snapshots, m.committed_at), ',' order by m.committed_at, m.id) ||
           (select string_agg(e::text, ',' order by e.endpoint) from endpoint_states e where e.product_id = p.id) as text,
         (select count(*)::int from endpoint_states e where e.product_id = p.id
            and (e.state <> 'ok' or e.applied_epoch is distinct from max(m.epoch))) as behind
       from products p left join materializations m on m.product_id = p.id group by p.id, p.name`,
    ),
  )
  const stored = await withDatabase(world.folder, 'sluice_serving', placesInStore)
  const files = lakeFiles(world)
  return new Map(
    registered.map(({ name, epoch, text, behind }) => {
      const own = { stored: stored.get(name) ?? '', files: (files.get(name) ?? []).join(' ') }
      return [name, { epoch, behind, registered: text, ...own }]
    }),
  )
}

interface Copy {
  readonly product: string
  /** What the store says of it. */
  readonly facts: string
  readonly table: string
}

async function copies(client: pg.Client): Promise<readonly Copy[]> {
  return rowsOf<Copy>(
    client,
    `select product, concat_ws(' ', epoch, fence, committed_at, partition) as facts,
       format('sluice_partitions.%I', partition) as table
     from sluice_store.datasets where partition is not null`,
  )
}

async function placesInStore(client: pg.Client): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (const { product, facts, table } of await copies(client)) {
    const [places] = await rowsOf<{ md5: string }>(
      client,
      `select md5(string_agg(ctid::text || xmin::text, ',' order by ctid)) from ${table}`,
    )
    found.set(product, `${facts} ${places?.md5}`)
  }
  return found
}

/** All rows of the copies of these products. */
export function rowsInStore(world: World, names: ReadonlySet<string>): Promise<ReadonlyMap<string, HeldRows>> {
  return withDatabase(world.folder, 'sluice_serving', async (client) => {
    const found = new Map<string, HeldRows>()
    for (const { product, table } of await copies(client)) {
      if (!names.has(product)) continue
      const rows = await rowsOf<{ id: string | null; n: string | null }>(
        client,
        `select id::text as id, n::text as n from ${table}`,
      )
      found.set(product, { ids: rows.map(({ id }) => id), ns: rows.map(({ n }) => n) })
    }
    return found
  })
}

/** The store's next transaction; rows that it writes from then on are counted by `rowsStored`. */
export function storeTransaction(world: World): Promise<number> {
  return withDatabase(world.folder, 'sluice_serving', async (client) => {
    const [row] = await rowsOf<{ id: string }>(client, 'select txid_current() as id')
    return Number(row?.id)
  })
}

export function rowsStored(world: World, names: ReadonlySet<string>, since: number): Promise<number> {
  return withDatabase(world.folder, 'sluice_serving', async (client) => {
    let sum = 0
    for (const { product, table } of await copies(client)) {
      if (!names.has(product)) continue
      const [row] = await rowsOf<{ n: number }>(
        client,
        `select count(*)::int as n from ${table} where xmin::text::bigint > ${since}`,
      )
      sum += row?.n ?? 0
    }
    return sum
  })
}

async function rowsOf<R extends object>(client: pg.Client, sql: string): Promise<readonly R[]> {
  return (await client.query(sql)).rows as R[]
}

/** Processor time of the runtime's own process, and of those that it has started: engine, readers of sources, PostgreSQL. */
export interface Spent {
  readonly ownS: number
  readonly startedS: number
}

/** What `work` cost, as long as nobody kills the runtime meanwhile. */
export async function spentBy(world: World, work: () => Promise<unknown>): Promise<Spent> {
  const before = await processorOf(world.pid)
  await work()
  const after = await processorOf(world.pid)
  const less = (a: number, b: number) => Math.round((a - b) * 100) / 100
  return { ownS: less(after.ownS, before.ownS), startedS: less(after.startedS, before.startedS) }
}
