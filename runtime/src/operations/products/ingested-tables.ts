/** The tables that runs of a connection read, and who may know of them. */
import type { TenantCall } from '../../flow.ts'
import { tablesOf } from '../../ingestion/source-tables.ts'
import type { Connection } from '../../registry/connections.ts'
import { rawReader } from '../rights/raw-rights.ts'
import type { ProductsDeps } from './deps.ts'
import { readersOf } from './input-reads.ts'
import { isReader } from './readable-product.ts'

export interface IngestedTables {
  /** `schema.table`: those that deployed products read, since a run reads no others. */
  readonly all: ReadonlySet<string>
  /** Of these the caller's to know of: by a right to the table, or to a product of it. */
  readonly known: ReadonlySet<string>
}

export async function ingestedTables(
  platform: ProductsDeps,
  call: TenantCall,
  connection: Connection,
): Promise<IngestedTables> {
  const mayRead = rawReader(platform, call.principal, call.tenant)
  const [all, known] = [new Set<string>(), new Set<string>()]
  for (const { product, manifests } of await readersOf(platform.pool, connection)) {
    const isKnown = await isReader(platform, call, product)
    for (const { name } of tablesOf(manifests.inputs.filter((input) => input.connection === connection.name))) {
      all.add(name)
      if (isKnown || (await mayRead(connection.id, name))) known.add(name)
    }
  }
  return { all, known }
}
