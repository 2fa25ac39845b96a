/** Where pairs are played one after the other: a tenant with its readers, in a runtime that other lanes share. */
import pg from 'pg'
import { Client, type Json, ok } from '../../acceptance/client.ts'
import type { Deployment } from '../../acceptance/deployment.ts'
import { Pseudonyms } from './doors.ts'
import { READERS, TEAM } from './readers.ts'

export interface Lane {
  readonly tenant: string
  readonly admin: Client
  /** Makes connections and products. */
  readonly owner: Client
  readonly clients: ReadonlyMap<string, Client>
  readonly source: pg.Client
  readonly pseudonyms: Pseudonyms
  /** As the settings of a connection. */
  readonly login: string
  close(): Promise<void>
}

export async function openLane(deployment: Deployment, tenant: string): Promise<Lane> {
  const { url } = deployment
  const admin = new Client(url, await deployment.token(['--role', 'admin', '--ttl', '12h']))
  await ok(admin.post('/api/v1/tenants', { slug: tenant, display_name: tenant, tier: 'enterprise' }))
  const clients = new Map<string, Client>()
  for (const { name, groups } of READERS) {
    const who = ['--tenant', tenant, '--group', groups.join(','), '--user', name, '--ttl', '12h']
    clients.set(name, new Client(url, await deployment.token(who)))
  }
  const source = new pg.Client(deployment.source)
  await source.connect()
  const { host, port, user, password, database } = deployment.source
  return {
    tenant,
    admin,
    owner: clients.get('dora') as Client,
    clients,
    source,
    pseudonyms: new Pseudonyms(),
    login: JSON.stringify({ host, port, user, password, database, ssl_mode: 'prefer' }),
    close: () => source.end(),
  }
}

/** Registers it, and gives readers what they hold. */
export async function register({ owner, admin, tenant }: Lane, name: string): Promise<void> {
  await ok(owner.post('/api/v1/products', { name, namespace: 'made', archetype: 'source_aligned', description: '' }))
  for (const { name: user, grant, clear } of READERS) {
    if (grant === null) continue
    const subject = grant === 'team' ? { team: TEAM } : { user }
    const wanted = { subject, may: 'unmask', classes: clear === 'all' ? ['*'] : clear }
    await ok(admin.post(`/api/v1/products/made.${name}/grants`, wanted, { 'x-tenant-id': tenant }))
  }
}

export async function synced({ owner }: Lane, connection: string): Promise<Json> {
  const { id } = await ok(owner.post(`/api/v1/connections/${connection}/sync`))
  return owner.untilEnded(id)
}
