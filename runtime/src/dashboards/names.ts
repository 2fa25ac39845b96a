/**
 * What things are called in the dashboard server and in PostgreSQL. Every name follows from the product's id and the
 * variant, or from the tenant and who is meant, so that a repeated deploy meets what the former one made.
 */
import { createHash } from 'node:crypto'

/** Whom an audience holds: everybody of a team, or one user of the issuer that people log in to the server through. */
export interface Subject {
  readonly kind: 'team' | 'user'
  readonly name: string
}

/** One dataset: a product's copy for readers of one clearance. */
export interface DatasetId {
  readonly productId: string
  readonly variant: string
}

const ROLE_CHARACTERS = 64

/**
 * The role in the dashboard server that stands for a subject of a tenant: `sluice:acme:team:svc-viewers`. A tenant's slug
 * holds no colon, so no two subjects share one. What the server could not hold is hashed; whoever maps people to roles
 * there does the same.
 */
export function subjectRole(tenant: string, { kind, name }: Subject): string {
  const plain = `sluice:${tenant}:${kind}:${name}`
  return [...plain].length <= ROLE_CHARACTERS ? plain : `sluice:${sha256(plain).slice(0, 40)}`
}

/** The dataset's login in PostgreSQL, which is the schema of its view too. It says nothing of the tenant. */
export function loginName(dataset: DatasetId): string {
  return `sluice_view_${digest('login', dataset).slice(0, 24)}`
}

/** In the dashboard server; stable, so that what is imported again takes the place of what is there. */
export function assetUuid(kind: string, dataset: DatasetId): string {
  const hex = digest(`asset:${kind}`, dataset)
  // Of version 8: made by a rule of its own.
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `a${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}

/** The last part of the dashboard's address. */
export function dashboardSlug(dataset: DatasetId): string {
  return `sluice-${digest('slug', dataset).slice(0, 20)}`
}

/** Of the rules that hide rows: one by tenant, one by classification. */
export function ruleName(kind: 'tenant' | 'classification', dataset: DatasetId): string {
  return `sluice ${kind} ${digest('rule', dataset).slice(0, 24)}`
}

function digest(what: string, { productId, variant }: DatasetId): string {
  return sha256(JSON.stringify([what, productId, variant]))
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
