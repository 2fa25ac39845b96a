/**
 * Measures what a run asks the registry at its begin, beside products of the same tenant that have nothing to do with its connection:
 * `node bench/registry.ts --products 0,5000`. Statements, and processor time of this process and of the server's, for each look.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { startEmbeddedServer } from '../runtime/src/database/embedded-server.ts'
import { migrate } from '../runtime/src/database/migrate.ts'
import { inTransaction, openPool } from '../runtime/src/database/pools.ts'
import { readersOf } from '../runtime/src/operations/products/input-reads.ts'
import { createConnection } from '../runtime/src/registry/connections.ts'
import { registryMigrations } from '../runtime/src/registry/migrations.ts'
import { createProduct, productsInServiceOf, updateProduct } from '../runtime/src/registry/products.ts'
import { claimRun } from '../runtime/src/registry/run-claims.ts'
import { createTenant, setTenantStatus } from '../runtime/src/registry/tenants.ts'
import { saveVersion } from '../runtime/src/registry/versions.ts'
import { flag } from './setup.ts'

const sizes = (flag('products') ?? '0,5000').split(',').map(Number)
const LOOKS = 20
const BY = { issuer: 'bench', subject: 'bench' }
const TENANT = 'bench'
/** As large as manifests are. */
const COLUMNS = Array.from({ length: 12 }, (_, at) => ({
  name: `column_${at}`,
  type: 'string',
  description: 'of a row',
}))
const manifestsOf = (connection: string) => ({
  inputs: [{ name: 'rows', connection, table: { schema: 'public', name: 'rows' }, mode: 'cdc' }],
  output: { columns: COLUMNS, primaryKey: ['column_0'] },
  compute: { trigger: 'on_ingestion', transform: 'SELECT * FROM rows' },
})

const folder = await mkdtemp(join(tmpdir(), 'sluice-bench-'))
const server = await startEmbeddedServer({ dataFolder: folder, durable: false })
const pool = openPool(server.address, { applicationName: 'bench', maxConnections: 1 })
try {
  await migrate(pool, [registryMigrations])
  await inTransaction(pool, (tx) => createTenant(tx, { slug: TENANT, displayName: TENANT, tier: 'enterprise' }))
  await setTenantStatus(pool, TENANT, 'active')
  const of = { tenant: TENANT, connectorType: 'postgresql', config: {}, createdBy: BY }
  const connection = await inTransaction(pool, (tx) => createConnection(tx, { ...of, name: 'source' }))
  const own = await addProduct('own', connection.name)
  const template = await addProduct('template', 'elsewhere')
  for (const size of sizes) {
    await addOthers(template, size)
    await tell(size, 'who reads the connection', () => readersOf(pool, connection))
    await tell(size, 'who is made of them', () => productsInServiceOf(pool, TENANT, [`d.${own}`]))
    await tell(size, 'a look for work', () => claimRun(pool, { workerId: 'bench', leaseMs: 60_000 }))
  }
} finally {
  await pool.end()
  await server.stop()
  await rm(folder, { recursive: true, force: true })
}

async function addProduct(name: string, source: string): Promise<string> {
  return inTransaction(pool, async (tx) => {
    const wanted = { tenant: TENANT, domain: 'd', name, archetype: 'aggregate', createdBy: BY } as const
    const { id: productId } = await createProduct(tx, wanted)
    const normalised = manifestsOf(source)
    const version = { productId, version: '1.0.0', manifests: {}, normalised, digest: 'd', deployedBy: BY }
    await saveVersion(tx, version)
    await updateProduct(tx, TENANT, productId, { status: 'deployed', currentVersion: '1.0.0' })
    return name
  })
}

/** As many in all as are asked for. */
async function addOthers(template: string, count: number): Promise<void> {
  const copies = (table: string, key: string, more: string) =>
    `insert into ${table} select (jsonb_populate_record(o, jsonb_build_object('${key}', 'other_' || i${more}))).*
     from ${table} o join products p on p.id = o.${key}, generate_series(1, $2::int) i where p.name = $1 on conflict do nothing`
  await pool.query(copies('products', 'id', ", 'name', 'other_' || i"), [template, count])
  await pool.query(copies('product_versions', 'product_id', ''), [template, count])
  await pool.query('vacuum analyze products')
  await pool.query('vacuum analyze product_versions')
}

async function tell(size: number, what: string, look: () => Promise<unknown>): Promise<void> {
  await look()
  const { rows } = await pool.query('select pg_backend_pid() as pid')
  const pid = (rows[0] as { readonly pid: number }).pid
  let statements = 0
  const query = pg.Client.prototype.query as (...args: unknown[]) => unknown
  pg.Client.prototype.query = function (this: pg.Client, ...args: unknown[]) {
    statements += 1
    return query.apply(this, args)
  } as typeof pg.Client.prototype.query
  const [ownBefore, serverBefore] = [process.cpuUsage(), await serverS(pid)]
  for (let at = 0; at < LOOKS; at += 1) await look()
  const [{ user, system }, serverAfter] = [process.cpuUsage(ownBefore), await serverS(pid)]
  pg.Client.prototype.query = query as typeof pg.Client.prototype.query
  const ownMs = (user + system) / 1000 / LOOKS
  const serverMs = ((serverAfter - serverBefore) * 1000) / LOOKS
  const cost = `${statements / LOOKS} statements, ${ownMs.toFixed(1)} ms here, ${serverMs.toFixed(1)} ms at the server`
  console.log(`${size} others: ${what}: ${cost}`)
}

/** Processor time of the server's process, as /proc counts it: in hundredths of a second. */
async function serverS(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'latin1')
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ')
  return (Number(fields[11]) + Number(fields[12])) / 100
}
