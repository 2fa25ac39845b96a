/**
 * Measures analytics on Trino: a person's statements, before each of which Trino asks the runtime's policy endpoint, as a
 * ratio to the same statement on a Trino of the same files that asks nobody. `node bench/trino.ts --rows 1000000 --seconds 10`.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { loadavg, tmpdir } from 'node:os'
import { join } from 'node:path'
import tls from 'node:tls'
import pg from 'pg'
import { openDeployment } from '../acceptance/deployment.ts'
import { formatAddress } from '../runtime/src/database/address.ts'
import { freePort } from '../runtime/src/database/free-port.ts'
import { createLakeCatalog, jdbcUrl, lakeLogin, startGovernedTrino } from '../stack/servers/governed-trino.ts'
import { startTrino } from '../stack/servers/trino.ts'
import { connectionTo } from '../stack/several/fleet.ts'
import { type TrinoLogin, trinoRows } from '../stack/trino/rows.ts'
import { call, createMeasured, deploy, flag, register, sync } from './setup.ts'
import { inTurns, type Speed, speedOf } from './stores-bare.ts'

const rows = Number(flag('rows') ?? 1_000_000)
const seconds = Number(flag('seconds') ?? 10)
const TENANT = 'bench'

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
const governed = await startGovernedTrino(join(folder, 'governed'))
const bare = await startTrino({
  folder: join(folder, 'bare'),
  port: await freePort(),
  env: lakeLogin(governed.runtime),
})
try {
  Object.assign(process.env, governed.runtime.env)
  tls.setDefaultCACertificates([...tls.getCACertificates(), await readFile(governed.authorityFile, 'utf8')])
  const deployment = await openDeployment()
  const admin = await deployment.token(['--role', 'admin', '--ttl', '10h'])
  const own = ['--tenant', TENANT, '--ttl', '10h']
  const developer = await deployment.token([...own, '--group', 'svc-developers', '--user', 'dora'])
  const viewer = await deployment.token([...own, '--group', 'svc-viewers', '--user', 'vito'])
  await fill(deployment, admin, developer)
  const statement = createLakeCatalog(TENANT, jdbcUrl(governed.runtime), governed.lakeFolder)
  await trinoRows({ url: governed.url, token: admin }, statement)
  await trinoRows({ url: bare.url }, statement)
  console.log(`${rows.toLocaleString('en')} rows, ${seconds} s a round, load ${loadavg()[0]?.toFixed(1)}\n`)
  console.log('| what | ours | bare Trino | ratio |\n|---|---|---|---|')
  for (const [what, sql] of Object.entries(statements())) {
    for (const atOnce of [1, 32]) await compare(what, sql, atOnce, { url: governed.url, token: viewer })
  }
  await deployment.stop()
} finally {
  await bare.stop()
  await governed.stop()
  await rm(folder, { recursive: true, force: true })
}

type Deployment = Awaited<ReturnType<typeof openDeployment>>

async function fill({ url, source }: Deployment, admin: string, developer: string): Promise<void> {
  const client = new pg.Client(source)
  await client.connect()
  await createMeasured(client, rows)
  await client.end()
  await call(url, admin, 'POST', '/api/v1/tenants', { slug: TENANT, display_name: 'Bench', tier: 'enterprise' })
  const bench = { call: (method: string, path: string, body?: unknown) => call(url, developer, method, path, body) }
  const { user, password } = source as { readonly user: string; readonly password: string }
  await bench.call('POST', '/api/v1/connections', {
    ...connectionTo(formatAddress({ ...source, user, password, tls: 'disable' })),
    name: 'source',
  })
  await register(bench)
  ;(await deploy(bench, '1.0.0', '  - type: analytics\n')) ?? (await sync(bench))
}

function statements(): Readonly<Record<string, string>> {
  const table = `lakehouse_${TENANT}.bench.measured`
  return {
    'one row by its key': `SELECT * FROM ${table} WHERE id = 4711`,
    'a sum over all rows': `SELECT country, count(*), sum(quantity) FROM ${table} GROUP BY country ORDER BY 1`,
  }
}

async function compare(what: string, sql: string, atOnce: number, login: TrinoLogin): Promise<void> {
  const asks = (as: TrinoLogin) => Array.from({ length: atOnce }, () => () => trinoRows(as, sql))
  const speed = (as: TrinoLogin) => speedOf({ asks: asks(as) }, rows, seconds)
  const [ours, theirs] = await inTurns(
    () => speed(login),
    () => speed({ url: bare.url }),
  )
  const shown = ({ requestsPerS, medianMs }: Speed) => `${requestsPerS.toFixed(1)}/s, ${Math.round(medianMs)} ms`
  const ratio = (ours.requestsPerS / theirs.requestsPerS).toFixed(2)
  console.log(`| ${what}, ${atOnce} at once | ${shown(ours)} | ${shown(theirs)} | ${ratio} |`)
}
