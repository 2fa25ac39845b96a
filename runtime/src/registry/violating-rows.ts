/**
 * Rows that the checks of a product's newest materialization found bad. They are values of rows, so that they are sealed
 * with a key of the tenant, and go with the next materialization as the rows themselves may.
 */
import type { MasterKeys } from './master-keys.ts'
import type { Materialization } from './materializations.ts'
import { seal, unseal } from './sealing.ts'
import { change, many, type Queryable, type Transaction } from './sql.ts'
import { rowsKey } from './tenant-keys.ts'

/** Of one check, as one variant shows them. */
export interface ViolatingRows {
  readonly check: string
  readonly columns: readonly string[]
  /** Those of `columns` that the variant masks. */
  readonly masked: readonly string[]
  /** Whether values of source tables may be among them, or decide which rows are. */
  readonly ofSource: boolean
  /** Values as text, long ones cut. */
  readonly rows: readonly (readonly (string | null)[])[]
}

type Owner = Pick<Materialization, 'tenant' | 'productId' | 'id'>

/** In place of what the materialization before had, also where this one has none. */
export async function replaceViolatingRows(
  tx: Transaction,
  masters: MasterKeys,
  { tenant, productId, id }: Owner,
  byVariant: ReadonlyMap<string, readonly ViolatingRows[]>,
): Promise<void> {
  await change(tx, 'removing violating rows', 'delete from violating_rows where product_id = $1', [productId])
  const kept = [...byVariant].filter(([, checks]) => checks.length > 0)
  if (kept.length === 0) return
  const key = await rowsKey(tx, masters, tenant)
  for (const [variant, checks] of kept) {
    const sealed = seal(key, Buffer.from(JSON.stringify(checks)), context(tenant, id, variant))
    await change(
      tx,
      'keeping violating rows',
      'insert into violating_rows (product_id, variant, materialization_id, sealed) values ($1, $2, $3, $4)',
      [productId, variant, id, sealed],
    )
  }
}

export interface KeptViolatingRows {
  readonly materializationId: string
  readonly variants: readonly string[]
  /** Opens one of `variants`; nothing else of what is kept is ever in clear. */
  of(variant: string): Promise<readonly ViolatingRows[]>
}

/** Null where the newest materialization of the product has none. */
export async function violatingRowsOf(
  db: Queryable,
  masters: MasterKeys,
  tenant: string,
  productId: string,
): Promise<KeptViolatingRows | null> {
  const rows = await many<{ variant: string; materializationId: string; sealed: Buffer }>(
    db,
    'reading violating rows',
    `select variant, materialization_id as "materializationId", sealed from violating_rows where product_id = $1`,
    [productId],
  )
  const [first] = rows
  if (first === undefined) return null
  return {
    materializationId: first.materializationId,
    variants: rows.map(({ variant }) => variant),
    async of(wanted) {
      const row = rows.find(({ variant }) => variant === wanted)
      if (row === undefined) return []
      const opened = unseal(
        await rowsKey(db, masters, tenant),
        row.sealed,
        context(tenant, row.materializationId, wanted),
      )
      return JSON.parse(opened.toString('utf8')) as ViolatingRows[]
    },
  }
}

function context(tenant: string, materializationId: string, variant: string): readonly string[] {
  return ['violating-rows', tenant, materializationId, variant]
}
