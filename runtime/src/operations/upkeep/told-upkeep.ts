/** What upkeep tells its caller: how much a table holds is for who may read it, of masked products in the clear. */
import type { TenantCall } from '../../flow.ts'
import { SANDBOX } from '../../lake/tenant-layout.ts'
import { qualified } from '../../manifest/context.ts'
import { connectionOf } from '../../materializer/inputs.ts'
import { productOfTable } from '../../materializer/variants.ts'
import { findConnectionByName } from '../../registry/connections.ts'
import { rawReader } from '../rights/raw-rights.ts'
import { accessOrNull } from '../served/served-product.ts'
import type { UpkeepDeps } from './deps.ts'
import type { TableUpkeep } from './lake-upkeep.ts'

/** Of tables that the caller may not read: that something was done or found there, and why it failed. */
export async function toldUpkeep(
  platform: UpkeepDeps,
  call: TenantCall,
  tables: readonly TableUpkeep[],
): Promise<readonly TableUpkeep[]> {
  const readsRaw = rawReader(platform, call.principal, call.tenant)
  const told: TableUpkeep[] = []
  for (const one of tables)
    told.push((await isReadable(platform, call, one.table, readsRaw)) ? one : withoutFigures(one))
  return told
}

async function isReadable(
  platform: UpkeepDeps,
  call: TenantCall,
  name: string,
  readsRaw: ReturnType<typeof rawReader>,
): Promise<boolean> {
  const at = name.indexOf('.')
  const [domain, table] = [name.slice(0, at), name.slice(at + 1)]
  if (call.principal.isAdmin || domain === SANDBOX) return true
  const source = connectionOf(domain)
  if (source === null) return readsClear(platform, call, `${domain}.${productOfTable(table).product}`)
  const connection = await findConnectionByName(platform.pool, call.tenant, source)
  return connection !== null && readsRaw(connection.id, qualified(table))
}

async function readsClear(platform: UpkeepDeps, call: TenantCall, product: string): Promise<boolean> {
  const [served] = await platform.served.named(call.tenant, new Set([product]))
  const access = served && accessOrNull(served, call.principal, platform.rules)
  return access?.masks.length === 0
}

const TOLD_TO_ALL = ['table', 'compacted', 'error']

function withoutFigures(one: TableUpkeep): TableUpkeep {
  const entries = Object.entries(one).filter(([key]) => TOLD_TO_ALL.includes(key))
  return Object.fromEntries(entries) as TableUpkeep
}
