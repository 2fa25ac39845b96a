/**
 * Measures how the connector for MariaDB reads a table, against MariaDB's own client in the same run, by processor time of the
 * reader alone: `node bench/mariadb.ts --rows 1000000 --rounds 5`.
 */
import { execFile } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import plugin from '../plugins/connectors/mariadb/index.ts'
import { startSource } from '../plugins/connectors/mariadb/source-server.ts'
import { sourceHost } from '../plugins/connectors/postgresql/source-host.ts'
import { mariadbPrograms, startMariadb } from '../stack/servers/mariadb.ts'
import { flag } from './setup.ts'

const rows = Number(flag('rows') ?? 1_000_000)
const rounds = Number(flag('rounds') ?? 5)
const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
const server = await startMariadb(folder)
Object.assign(process.env, server.env)
const source = await startSource()
const { settings, sql } = source

try {
  await sql(
    `GRANT SELECT ON ${settings.database}.* TO '${settings.user}'@'%'`,
    `CREATE TABLE t (id BIGINT PRIMARY KEY, customer INT, name VARCHAR(40), email VARCHAR(60), city VARCHAR(30), amount DECIMAL(12,2),
       rate DOUBLE, born DATE, changed TIMESTAMP(6), note TEXT)`,
    `INSERT INTO t SELECT seq, seq % 9999, CONCAT('Name ', seq), CONCAT('m', seq, '@example.com'), ELT(1 + seq % 4, 'Bonn', 'Köln', 'Ulm', ''),
       seq / 7, seq / 3, '1980-01-01' + INTERVAL seq % 9000 DAY, '2026-01-01' + INTERVAL seq SECOND,
       IF(seq % 5 = 0, NULL, CONCAT('a note of "', seq, '"')) FROM seq_1_to_${rows}`,
  )
  const spent: [number, number][] = []
  for (let round = 0; round <= rounds; round += 1) {
    const one: [number, number] = [await ofConnector(), await ofClient()]
    // The first does not count.
    if (round > 0) spent.push(one)
  }
  const median = (at: 0 | 1) => spent.map((one) => one[at]).sort((a, b) => a - b)[rounds >> 1] as number
  console.log(
    `${rows} rows of ten columns: connector ${median(0).toFixed(2)} CPU s, mariadb --quick ${median(1).toFixed(2)} CPU s, ` +
      `× ${(median(0) / median(1)).toFixed(2)} (${spent.map((one) => one.map((s) => s.toFixed(2)).join('/')).join(' ')})`,
  )
} finally {
  await source.stop()
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

async function ofConnector(): Promise<number> {
  const connector = await plugin.open(settings, sourceHost())
  const before = process.cpuUsage()
  const request = { schema: settings.database, table: 't', mode: 'full', columns: [], primaryKey: [] } as const
  const signal = new AbortController().signal
  let bytes = 0
  for await (const event of connector.read({ ...request, cursorColumn: null, state: null, signal })) {
    if (event.kind === 'csv') bytes += event.chunk.byteLength
  }
  const { user, system } = process.cpuUsage(before)
  await connector.close()
  if (bytes < rows) throw new Error('rows are missing')
  return (user + system) / 1e6
}

async function ofClient(): Promise<number> {
  const { client, env } = await mariadbPrograms()
  const query = [
    ...[
      '--no-defaults',
      '--batch',
      '--skip-column-names',
      '--quick',
      `--host=${settings.host}`,
      `--port=${settings.port}`,
    ],
    ...[`--user=${settings.user}`, `--password=${settings.password}`, `--execute=SELECT * FROM ${settings.database}.t`],
  ]
  const script = 'TIMEFORMAT="%U %S"; time "$0" "$@" > /dev/null'
  const { stderr } = await promisify(execFile)('bash', ['-c', script, client, ...query], { env })
  const times = /([\d.]+) ([\d.]+)\s*$/.exec(stderr)
  return Number(times?.[1]) + Number(times?.[2])
}
