/**
 * Topics that the suite fills: tables are upserts, whose owner describes them in the settings of the connection. These are known
 * when a connector is opened, so that no table has other columns for one that is open: `alter` is not there.
 */
import { readdir, readFile, readlink } from 'node:fs/promises'
import type { SourceFixture, SourceTable } from '@sluice/conformance'
import type { Row, Value } from '@sluice/sdk'
import type { KafkaSettings } from './settings.ts'
import { type OwnRecord, SourceCluster } from './source-cluster.ts'
import type { TopicSettings } from './topic-settings.ts'

const PARTITIONS = 3

export interface KafkaFixture extends SourceFixture {
  readonly settings: KafkaSettings
}

export async function start(): Promise<KafkaFixture> {
  const cluster = await SourceCluster.open()
  const tables = new Map<string, TopicSettings>()
  let changes = 0
  const settings = (): KafkaSettings => ({ ...cluster.settings, tables: Object.fromEntries(tables) })
  const describe = (table: SourceTable) => {
    tables.set(table.name, {
      ...{ mode: 'upsert', key_format: 'json', metadata: false, primary_key: table.primaryKey },
      columns: table.columns.map(({ name, type }) => ({ name, type })),
    })
  }
  const send = async (table: SourceTable, records: readonly OwnRecord[]) => {
    changes += 1
    await cluster.send(table.name, records, (['none', 'gzip', 'lz4', 'snappy', 'zstd'] as const)[changes % 5])
  }
  await cluster.create('steady')
  tables.set('steady', { mode: 'upsert', primary_key: ['id'], columns: [{ name: 'id', type: 'long' }] })
  const rows = new Map<string, Map<string, Row>>()
  const [host = '', port = ''] = cluster.broker.split(':')
  return {
    get settings() {
      return settings()
    },
    schema: 'kafka',
    steps: ['dns', 'tcp', 'auth', 'privileges'],
    broken: {
      dns: { ...cluster.settings, brokers: [`nowhere.invalid:${port}`] },
      tcp: { ...cluster.settings, brokers: [`${host}:1`] },
      auth: { ...cluster.settings, password: 'not the password of that login' },
      privileges: { ...cluster.settings, topics: ['there-is-no-such-topic'], tables: {} },
    },
    create: async (table) => {
      await cluster.create(table.name, { partitions: PARTITIONS, isHidden: table.hidden === true })
      describe(table)
      rows.set(table.name, new Map())
    },
    put: async (table, added) => {
      const held = rows.get(table.name) ?? new Map()
      for (const row of added) held.set(keyOf(table, row), row)
      await send(
        table,
        added.map((row) => ({ key: keyOf(table, row), value: documentOf(table, row) })),
      )
    },
    remove: async (table, removed) => {
      for (const row of removed) rows.get(table.name)?.delete(keyOf(table, row))
      await send(
        table,
        removed.map((row) => ({ key: keyOf(table, row), value: null })),
      )
    },
    drop: async (table) => {
      await cluster.drop(table.name)
      tables.delete(table.name)
    },
    putUnfit: async (table, count) => {
      const records = Array.from({ length: count }, (_, index) => ({
        key: JSON.stringify({ id: -1 - index }),
        value: index % 2 === 0 ? 'not JSON' : JSON.stringify({ at: 'never' }),
      }))
      await send(table, records)
    },
    putWithout: async (table, row) => {
      const at = table.columns.findIndex(({ name }) => name === 'rank')
      const odd = row.map((value, index) => (index === at ? 'of no rank' : value))
      await send(table, [{ key: keyOf(table, row), value: documentOf(table, odd) }])
      return 'rank'
    },
    digest: async () => String(changes),
    sessions: () => connectionsTo(Number(port), cluster),
    stop: () => cluster.close(),
  }
}

function keyOf({ columns, primaryKey }: SourceTable, row: Row): string {
  const parts = primaryKey.map(
    (name) => `${JSON.stringify(name)}:${jsonOf(row[columns.findIndex((column) => column.name === name)] ?? null)}`,
  )
  return `{${parts.join(',')}}`
}

function documentOf({ columns, primaryKey }: SourceTable, row: Row): string {
  const parts = columns.flatMap(({ name, type }, at) => {
    const value = row[at] ?? null
    if (primaryKey.includes(name)) return []
    return [`${JSON.stringify(name)}:${type === 'json' && value !== null ? String(value) : jsonOf(value)}`]
  })
  return `{${parts.join(',')}}`
}

function jsonOf(value: Value): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'bigint') return value.toString()
  if (typeof value === 'number')
    return Number.isFinite(value) ? (Object.is(value, -0) ? '-0' : String(value)) : JSON.stringify(String(value))
  if (value instanceof Uint8Array) return JSON.stringify(`\\x${Buffer.from(value).toString('hex')}`)
  return JSON.stringify(value)
}

/** Lines of this process to the broker, as the kernel counts them, but for those of the owner. */
async function connectionsTo(port: number, cluster: SourceCluster): Promise<number> {
  const own = cluster.localPorts
  const sockets = await socketsOfThisProcess()
  const lines = (await readFile('/proc/self/net/tcp', 'utf8').catch(() => '')).split('\n')
  const portOf = (address: string | undefined) => Number.parseInt(address?.split(':')[1] ?? '0', 16)
  return lines
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , remote, state]) => portOf(remote) === port && state === '01')
    .filter((parts) => sockets.has(parts[9] ?? '') && !own.has(portOf(parts[1]))).length
}

async function socketsOfThisProcess(): Promise<ReadonlySet<string>> {
  const names = await readdir('/proc/self/fd').catch(() => [])
  const targets = await Promise.all(names.map((name) => readlink(`/proc/self/fd/${name}`).catch(() => '')))
  return new Set(targets.flatMap((target) => /^socket:\[(\d+)\]$/.exec(target)?.[1] ?? []))
}
