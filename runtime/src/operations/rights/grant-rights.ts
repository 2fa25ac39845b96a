/** Who may grant what: nobody more than they hold. See docs/decisions/0062-grants-of-what-is-held.md. */
import { SluiceError } from '@sluice/sdk'
import type { Principal, TenantCall } from '../../flow.ts'
import type { ManifestSet } from '../../manifest/manifest-set.ts'
import type { Problem } from '../../manifest/problem.ts'
import { isSubject } from '../../policy/classification.ts'
import { isActor } from '../../registry/actor.ts'
import {
  addBasis,
  type EndedGrant,
  endUnfounded,
  type GrantNeed,
  grantBases,
  type NewGrantBasis,
  unfounded,
} from '../../registry/grant-bases.ts'
import { type GrantSubject, type ProductGrant, productGrants, type RawTableGrant } from '../../registry/grants.ts'
import type { Product } from '../../registry/products.ts'
import type { Transaction } from '../../registry/sql.ts'
import { deployedVersions, findVersion } from '../../registry/versions.ts'
import { audited } from '../audit.ts'
import { classificationOf } from '../served/upstream-access.ts'
import type { RightsDeps } from './deps.ts'
import { OnceEach } from './once-each.ts'
import { rawBasis } from './raw-rights.ts'
import { type InputSource, inputSources } from './sources-below.ts'

export interface WantedGrant {
  readonly may: 'read' | 'unmask'
  readonly classes: readonly string[]
}

/**
 * Throws PERMISSION `grant_not_held` unless the caller is an administrator, owns every source that the product's rows
 * came from, or holds a grant that may be granted on and covers this one. To themselves people may also grant what
 * they read in the raw tables of all its sources anyway. Gives the grants that this right is of; none: it is the caller's own.
 */
export async function requireHeld(
  platform: RightsDeps,
  call: TenantCall,
  product: Product,
  subject: GrantSubject,
  wanted: WantedGrant,
): Promise<readonly GrantNeed[]> {
  const { principal } = call
  if (principal.isAdmin) return []
  const sources = await sourcesOf(platform, product)
  const isOwn =
    subject.subjectType === 'user' && isSubject(principal, subject) && (await isAuthor(platform, principal, product))
  const bySources = await basisOf(platform, principal, product, sources, isOwn ? 'read' : 'grant', wanted)
  if (bySources?.length === 0) return bySources
  const byGrants = basisIn(await productGrants(platform.pool, call.tenant, product.id), principal, wanted)
  const basis = byGrants ?? bySources
  if (basis === null) throw notHeld('you may grant only what you hold and may grant on')
  return basis
}

/** Whether the principal is a developer who may read every raw table that rows of the product came from. */
export async function readsSources(platform: RightsDeps, principal: Principal, product: Product): Promise<boolean> {
  if (!principal.isDeveloper) return false
  return (await basisOf(platform, principal, product, await sourcesOf(platform, product), 'read', ALL)) !== null
}

/** Who registered the product, or deployed the version in service. */
async function isAuthor(platform: RightsDeps, principal: Principal, product: Product): Promise<boolean> {
  if (isActor(principal, product.createdBy)) return true
  const live =
    product.currentVersion === null ? null : await findVersion(platform.pool, product.id, product.currentVersion)
  return live !== null && isActor(principal, live.deployedBy)
}

/** The grants of the principal's by which it may grant this on; null where none does. Who may unmask may read, too. */
export function basisIn(
  grants: readonly ProductGrant[],
  principal: Principal,
  { may, classes }: WantedGrant,
): readonly GrantNeed[] | null {
  const own = grants.filter((grant) => grant.grantable.length > 0 && isSubject(principal, grant))
  const idsOf = (some: readonly ProductGrant[]) => some.map(({ id }) => id)
  const needs: GrantNeed[] =
    may === 'read'
      ? [{ anyOf: idsOf(own), to: 'grant' }]
      : classes.map((name) => {
          const open = own.filter(
            (one) => one.may === 'unmask' && [name, '*'].some((held) => one.grantable.includes(held)),
          )
          return { anyOf: idsOf(open), to: { class: name } }
        })
  return needs.every(({ anyOf }) => anyOf.length > 0) ? needs : null
}

/** Who comes to read tables by a version. */
export interface Readership {
  /** Grants that go on for rows of tables which no version before this one has read. */
  readonly grants: readonly ProductGrant[]
  readonly added: readonly InputSource[]
  /** What grants rest on that the version itself makes: to its author, and to others. */
  readonly needs: { readonly own: readonly GrantNeed[]; readonly others: readonly GrantNeed[] }
}

export interface Readers {
  /** Whom the version names. */
  readonly readers: readonly GrantSubject[]
  /** Ids of products as inputs whose readers by the version in service were judged, as closed as they are now. */
  readonly judged: ReadonlySet<string>
}

/**
 * A version shows its sources to those whom it names as readers, and new sources to those who hold grants already: its
 * author grants that. A product that was closed to many since then is a new source. Throws PERMISSION `grant_not_held`.
 */
export async function requireReadership(
  platform: RightsDeps,
  call: TenantCall,
  product: Product,
  manifests: ManifestSet,
  { readers, judged }: Readers,
): Promise<Readership> {
  const { principal } = call
  const isOther = (subject: GrantSubject) => subject.subjectType === 'team' || !isSubject(principal, subject)
  const before = await sourcesOf(platform, product)
  const now = await inputSources(platform.pool, product.tenant, [{ normalised: manifests, deployedAt: null }])
  const isJudged = (source: InputSource) => source.kind === 'table' || judged.has(source.product?.id ?? '')
  const isKnown = (source: InputSource) => isJudged(source) && before.some((one) => idOf(one) === idOf(source))
  const added = now.filter((source) => !isKnown(source))
  const all = added.length === 0 ? [] : await productGrants(platform.pool, product.tenant, product.id)
  const grants = all.filter(isOther)
  const others = await basisOf(platform, principal, product, now, 'grant', READ)
  if (readers.some(isOther) && others === null) {
    throw notHeld('product.yaml lets others read what you may not grant', 'Leave access empty')
  }
  for (const grant of grants) {
    if ((await basisOf(platform, principal, product, added, 'grant', grant)) !== null) continue
    throw notHeld('grants on the product would show others tables that you may not grant', 'Take the grants back')
  }
  const own = await basisOf(platform, principal, product, now, 'read', READ)
  return { grants, added, needs: { own: own ?? [], others: others ?? [] } }
}

const idOf = (source: InputSource) =>
  JSON.stringify([source.name, source.table, (source.kind === 'table' ? source.connection : source.product)?.id])

const MOST_NAMED = 20

/** For whoever reviews the plan: who will read what no version before has shown them. */
export function readershipWarnings({ grants, added }: Readership): readonly Problem[] {
  if (grants.length === 0) return []
  const named = grants.slice(0, MOST_NAMED).map(({ subjectType, subject, may, classes }) => {
    return `${subjectType} ${subject} (${[may, ...classes].join(' ')})`
  })
  const more = grants.length > named.length ? ` and ${grants.length - named.length} more` : ''
  const tables = added.map(({ kind, name, table }) => (kind === 'product' ? table : `${name}: ${table}`)).join(', ')
  const message = `grants on this product hold for its new source, ${tables}, too: ${named.join(', ')}${more}`
  const hint = 'Take back what is not meant for these rows before you deploy.'
  return [{ manifest: 'inputs', line: 1, column: 1, path: 'inputs', message, hint }]
}

/**
 * By which grants the principal may read all sources, or grant them on; null where it may not. Plain tables have no owner: a
 * product that is made of nothing else is its creator's.
 */
async function basisOf(
  platform: RightsDeps,
  principal: Principal,
  { createdBy }: Product,
  sources: readonly InputSource[],
  to: 'read' | 'grant',
  wanted: WantedGrant,
  looked: OnceEach<Basis> = new OnceEach(),
): Promise<Basis> {
  if (principal.isAdmin) return []
  if (sources.length === 0) return isActor(principal, createdBy) ? [] : null
  const needs = new Map<string, GrantNeed>()
  for (const source of sources) {
    const basis = await basisOfSource(platform, principal, source, to, wanted, looked)
    if (basis === null) return null
    for (const need of basis) needs.set(JSON.stringify(need), need)
  }
  return [...needs.values()]
}

/** Null: there is none. */
type Basis = readonly GrantNeed[] | null

/** Of all versions that were in service: the lake keeps what they made. */
async function sourcesOf(platform: RightsDeps, { id, tenant }: Product): Promise<readonly InputSource[]> {
  return inputSources(platform.pool, tenant, await deployedVersions<ManifestSet>(platform.pool, id))
}

/**
 * Of one source. Of a product as an input: by what it is made of itself; to let others read, by grants on it that may be
 * granted on, and where every member may read it anyway.
 */
async function basisOfSource(
  platform: RightsDeps,
  principal: Principal,
  source: InputSource,
  to: 'read' | 'grant',
  wanted: WantedGrant,
  looked: OnceEach<Basis>,
): Promise<Basis> {
  if (source.kind === 'table') {
    const { connection, table } = source
    return connection === null ? null : rawBasis(platform, { principal }, connection, table, to)
  }
  const { product } = source
  if (product === null) return null
  return looked.answer(product.id, [], () => basisOfProduct(platform, principal, product, to, wanted, looked))
}

async function basisOfProduct(
  platform: RightsDeps,
  principal: Principal,
  product: Product,
  to: 'read' | 'grant',
  wanted: WantedGrant,
  looked: OnceEach<Basis>,
): Promise<Basis> {
  const sources = await sourcesOf(platform, product)
  const bySources = await basisOf(platform, principal, product, sources, to, wanted, looked)
  if (bySources !== null || to === 'read') return bySources
  const grants = await productGrants(platform.pool, product.tenant, product.id)
  const byGrants = basisIn(grants, principal, wanted)
  if (byGrants !== null) return byGrants
  const isOpen = ['public', 'internal'].includes(
    classificationOf(await platform.served.find(product.tenant, product.id)),
  )
  return isOpen && wanted.may === 'read' ? [] : null
}

const READ: WantedGrant = { may: 'read', classes: [] }
const ALL: WantedGrant = { may: 'unmask', classes: ['*'] }

function notHeld(message: string, otherwise?: string): SluiceError {
  const ask = 'the creator of the connections that its rows come from, or an administrator'
  return new SluiceError('PERMISSION', message, {
    code: 'grant_not_held',
    remedy: otherwise === undefined ? `Ask ${ask}.` : `${otherwise}, or ask ${ask} to deploy.`,
  })
}

/** In the transaction of the grant: what it rests on, which has to be there still. Throws PERMISSION `grant_not_held`. */
export async function restsOn(
  tx: Transaction,
  grant: ProductGrant | RawTableGrant,
  basis: NewGrantBasis,
): Promise<void> {
  const id = await addBasis(tx, grant, basis)
  const isGone = unfounded(await grantBases(tx, grant.tenant)).some((one) => one.id === id)
  if (isGone) throw notHeld('the grant by which you may grant this was just taken back')
}

/** Ends what rested on a grant that is gone, all the way, and puts it on record. After `lockGrants`. */
export async function endWhatRested(
  tx: Transaction,
  call: TenantCall,
  gone: Readonly<Record<string, string>>,
): Promise<readonly EndedGrant[]> {
  const ended = await endUnfounded(tx, call.tenant)
  for (const { id, productId, connectionId, isGone } of ended) {
    const object =
      productId === null ? { type: 'connection', id: connectionId ?? '' } : { type: 'product', id: productId }
    const action = productId === null ? 'raw_grant.end' : 'grant.end'
    await audited(tx, call, call.tenant, action, object, { grant: id, whole: isGone, with: gone })
  }
  return ended
}
