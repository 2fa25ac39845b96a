/** Who has read products, as far as the audit log keeps it: see docs/decisions/0192-lineage.md. */
import type { Actor } from './actor.ts'
import { many, type Queryable } from './sql.ts'

export interface ProductReads {
  readonly productId: string
  readonly reader: Actor
  readonly reads: number
  readonly lastAt: Date
  /** `read.lookup`, `read.query`. */
  readonly actions: readonly string[]
}

/** Within the last days, whoever read last first. */
export function recordedReads(
  db: Queryable,
  tenant: string,
  productIds: readonly string[],
  { days, most }: { readonly days: number; readonly most: number },
): Promise<readonly ProductReads[]> {
  return many<ProductReads>(
    db,
    'reading the audit log',
    `select object_id as "productId",
       jsonb_build_object('issuer', actor ->> 'issuer', 'subject', actor ->> 'subject') as reader,
       count(*)::int as reads, max(at) as "lastAt", array_agg(distinct action order by action) as actions
     from audit_log
     where tenant = $1 and object_type = 'product' and action like 'read.%' and object_id = any($2)
       and outcome = 'allowed' and at > now() - make_interval(days => $3)
     group by object_id, actor ->> 'issuer', actor ->> 'subject'
     order by "lastAt" desc, object_id, actor ->> 'subject' limit $4`,
    [tenant, productIds, days, most],
  )
}
