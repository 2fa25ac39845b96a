/** What grants rest on: those of whoever gave them. A grant ends with the last of them. */
import type { Actor } from './actor.ts'
import type { ProductGrant, RawTableGrant } from './grants.ts'
import { change, json, many, one, type Queryable, type Transaction } from './sql.ts'

/** Any of these grants has to be there, and to allow that: reading, granting on at all, or granting on a class. */
export interface GrantNeed {
  readonly anyOf: readonly string[]
  readonly to: 'read' | 'grant' | { readonly class: string }
}

export interface NewGrantBasis {
  readonly classes: readonly string[]
  /** Of a raw grant: `raw`. */
  readonly grantable: readonly string[]
  readonly grantedBy: Actor
  readonly needs: readonly GrantNeed[]
}

/** One of the rights that a grant is made of. */
export interface GrantBasis extends Omit<NewGrantBasis, 'grantedBy'> {
  /** Null: of a grant from before this was kept, which rests on nothing. */
  readonly id: string | null
  readonly grant: string
}

/** Grants and what they rest on are changed one after the other in a tenant, until the transaction ends. */
export async function lockGrants(tx: Transaction, tenant: string): Promise<void> {
  await tx.query('select pg_advisory_xact_lock(hashtextextended($1, 0))', [`grants of ${tenant}`])
}

/**
 * Before a grant is added to: what it was until now rests on nothing, where nobody kept on what. Then `addBasis`.
 * @param found the grant that the subject has already
 */
export async function keepFormerBasis(tx: Transaction, found: ProductGrant | RawTableGrant | null): Promise<void> {
  if (found === null) return
  const column = columnOf(found)
  const { rows } = await tx.query(`select from grant_bases where ${column} = $1 limit 1`, [found.id])
  if (rows.length > 0) return
  await addBasis(tx, found, { ...contentOf(found), grantedBy: found.grantedBy, needs: [] })
}

/** The id of the basis. */
export async function addBasis(
  tx: Transaction,
  grant: ProductGrant | RawTableGrant,
  { classes, grantable, grantedBy, needs }: NewGrantBasis,
): Promise<string> {
  const kept = await one<{ id: string }>(
    tx,
    'granting',
    `insert into grant_bases (tenant, ${columnOf(grant)}, classes, grantable, granted_by, needs)
     values ($1, $2, $3, $4, $5, $6) returning id::text`,
    [grant.tenant, grant.id, classes, grantable, json(grantedBy), json(needs)],
  )
  return kept.id
}

const columnOf = (grant: ProductGrant | RawTableGrant) => ('may' in grant ? 'product_grant' : 'raw_grant')

function contentOf(grant: ProductGrant | RawTableGrant): Pick<NewGrantBasis, 'classes' | 'grantable'> {
  if ('may' in grant) return { classes: grant.classes, grantable: grant.grantable }
  return { classes: [], grantable: grant.grantable ? ['raw'] : [] }
}

export function grantBases(db: Queryable, tenant: string): Promise<GrantBasis[]> {
  return many<GrantBasis>(
    db,
    'reading grants',
    `select b.id::text, g.id as "grant", coalesce(b.classes, g.classes) as classes,
       coalesce(b.grantable, g.grantable) as grantable, coalesce(b.needs, '[]') as needs
     from (
       select id, classes, grantable from product_grants where tenant = $1
       union all
       select id, '{}', case when grantable then array['raw'] else '{}' end from raw_table_grants where tenant = $1
     ) g left join grant_bases b on g.id in (b.product_grant, b.raw_grant)`,
    [tenant],
  )
}

/**
 * Those that rest on nothing any more: neither on a right of one's own, nor on grants that do. Grants that hold up only each
 * other fall together.
 */
export function unfounded(bases: readonly GrantBasis[]): readonly GrantBasis[] {
  const held = new Map<string, Set<string>>()
  const isMet = ({ anyOf, to }: GrantNeed) =>
    anyOf.some((grant) => {
      const grantable = held.get(grant)
      if (grantable === undefined || to === 'read') return grantable !== undefined
      return to === 'grant' ? grantable.size > 0 : grantable.has('*') || grantable.has(to.class)
    })
  let open = bases
  for (;;) {
    const founded = open.filter(({ needs }) => needs.every(isMet))
    if (founded.length === 0) return open
    for (const { grant, grantable } of founded) {
      held.set(grant, new Set([...(held.get(grant) ?? []), ...grantable]))
    }
    open = open.filter((basis) => !founded.includes(basis))
  }
}

/** A grant that has ended, or become less, with another one. */
export interface EndedGrant {
  readonly id: string
  readonly productId: string | null
  readonly connectionId: string | null
  readonly subjectType: 'user' | 'team'
  readonly subject: string
  /** Of a grant that goes on with less: what is left of it. */
  readonly classes: readonly string[]
  readonly isGone: boolean
}

/** Ends what rests on nothing any more. After `lockGrants`. */
export async function endUnfounded(tx: Transaction, tenant: string): Promise<readonly EndedGrant[]> {
  const bases = await grantBases(tx, tenant)
  const fallen = unfounded(bases)
  const ended: EndedGrant[] = []
  for (const grant of new Set(fallen.map((basis) => basis.grant))) {
    const left = bases.filter((basis) => basis.grant === grant && !fallen.includes(basis))
    ended.push(await lessened(tx, tenant, grant, left))
  }
  const ids = fallen.map(({ id }) => id)
  await change(tx, 'revoking', 'delete from grant_bases where id = any($1::bigint[])', [ids])
  return ended
}

const ENDED = `id, subject_type as "subjectType", subject`

async function lessened(tx: Transaction, tenant: string, id: string, left: readonly GrantBasis[]): Promise<EndedGrant> {
  const isRaw = id.startsWith('rgt_')
  const table = isRaw ? 'raw_table_grants' : 'product_grants'
  const about = isRaw
    ? `${ENDED}, connection_id as "connectionId", null as "productId", '{}'::text[] as classes`
    : `${ENDED}, null as "connectionId", product_id as "productId", classes`
  if (left.length === 0) {
    const gone = `delete from ${table} where tenant = $1 and id = $2 returning ${about}, true as "isGone"`
    return one<EndedGrant>(tx, 'revoking', gone, [tenant, id])
  }
  const classes = [...new Set(left.flatMap((basis) => basis.classes))].sort()
  const grantable = [...new Set(left.flatMap((basis) => basis.grantable))].sort()
  const set = isRaw ? 'grantable = $3' : 'grantable = $3, classes = $4'
  const values = isRaw ? [grantable.length > 0] : [grantable, classes]
  const less = `update ${table} set ${set} where tenant = $1 and id = $2 returning ${about}, false as "isGone"`
  return one<EndedGrant>(tx, 'revoking', less, [tenant, id, ...values])
}
