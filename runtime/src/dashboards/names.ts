/**
 * What subjects and logins are called. Every name follows from the product's id and the variant, or from the tenant and who
 * is meant, so that a repeated deploy meets what the former one made.
 */
import { createHash } from 'node:crypto'
import type { DashboardDatasetId } from '@sluice/sdk'

/** Whom an audience holds: everybody of a team, or one user of the issuer that people log in to the server through. */
export interface Subject {
  readonly kind: 'team' | 'user'
  readonly name: string
}

const ROLE_CHARACTERS = 64

/**
 * The role in the dashboard server that stands for a subject of a tenant: `sluice:acme:team:svc-viewers`. A tenant's slug
 * holds no colon, so no two subjects share one. What is longer than a role may be is hashed; whoever maps people to roles
 * there does the same.
 */
export function subjectRole(tenant: string, { kind, name }: Subject): string {
  const plain = `sluice:${tenant}:${kind}:${name}`
  return [...plain].length <= ROLE_CHARACTERS ? plain : `sluice:${sha256(plain).slice(0, 40)}`
}

/** The dataset's login in PostgreSQL, which is the schema of its view too. It says nothing of the tenant. */
export function loginName({ productId, variant }: DashboardDatasetId): string {
  return `sluice_view_${sha256(JSON.stringify(['login', productId, variant])).slice(0, 24)}`
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
