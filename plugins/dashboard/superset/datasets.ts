/**
 * A dataset in Superset: made, changed, removed. Who may read it is said twice: by the permission that is given to the
 * roles of its audience, and by rules that hide every row from all others, however they came by the dataset.
 */
import { type DashboardAudience, type DashboardDataset, type DashboardDatasetId, SluiceError } from '@sluice/sdk'
import { bundleOf } from './bundle.ts'
import type { SupersetSession } from './client.ts'
import { assetUuid, dashboardSlug, ruleName } from './names.ts'
import { CHART_KEYS } from './templates.ts'

interface Found {
  readonly id: number
}

/** Repeatable: what is there by its name or UUID is changed, and nothing is made twice. Roles that are not there are made. */
export async function putDataset(
  session: SupersetSession,
  dataset: DashboardDataset,
  audience: DashboardAudience,
): Promise<void> {
  const bundle = bundleOf(dataset)
  const form = new FormData()
  form.set('bundle', new Blob([Uint8Array.from(bundle.archive)], { type: 'application/zip' }), 'sluice.zip')
  form.set('passwords', '{}')
  await session.upload('/api/v1/assets/import/', form)
  await removeCharts(session, dataset, bundle.chartKeys)
  const { id, permission } = await datasetOf(session, dataset)
  const roles = new Map<string, number>()
  for (const name of audience.roles) roles.set(name, await roleId(session, name))
  await putRules(session, dataset, id, { tenant: audience.tenant, roles: [...roles.values()] })
  const resource = await permissionId(session, permission)
  for (const name of audience.formerRoles.filter((former) => !roles.has(former))) {
    const former = await find(session, 'security/roles', 'name', name)
    if (former !== null) await setPermission(session, former.id, resource, false)
  }
  for (const role of roles.values()) await setPermission(session, role, resource, true)
}

/** Removes the dataset with its dashboard, charts, connection and rules, in this order. Repeatable. */
export async function removeDataset(session: SupersetSession, dataset: DashboardDatasetId): Promise<void> {
  await removeCharts(session, dataset, [])
  const found = await byUuid(session, 'dataset', assetUuid('dataset', dataset))
  if (found !== null) await session.delete(`/api/v1/dataset/${found.id}`)
  const database = await find(session, 'database', 'uuid', assetUuid('database', dataset))
  if (database !== null) await session.delete(`/api/v1/database/${database.id}`)
  for (const kind of ['tenant', 'classification'] as const) {
    const rule = await find(session, 'rowlevelsecurity', 'name', ruleName(kind, dataset))
    if (rule !== null) await session.delete(`/api/v1/rowlevelsecurity/?q=!(${rule.id})`)
  }
}

/** Removes the charts that a former template had, and the dashboard where no chart is kept. */
async function removeCharts(
  session: SupersetSession,
  dataset: DashboardDatasetId,
  kept: readonly string[],
): Promise<void> {
  if (kept.length === 0) {
    const dashboard = await byUuid(session, 'dashboard', dashboardSlug(dataset))
    if (dashboard !== null) await session.delete(`/api/v1/dashboard/${dashboard.id}`)
  }
  for (const key of CHART_KEYS.filter((candidate) => !kept.includes(candidate))) {
    const chart = await byUuid(session, 'chart', assetUuid(`chart:${key}`, dataset))
    if (chart !== null) await session.delete(`/api/v1/chart/${chart.id}`)
  }
}

async function datasetOf(session: SupersetSession, dataset: DashboardDatasetId) {
  const answer = await session.get(`/api/v1/dataset/${assetUuid('dataset', dataset)}`)
  const { result } = (answer ?? {}) as {
    readonly result?: {
      readonly id: number
      readonly table_name: string
      readonly database: { readonly database_name: string }
    }
  }
  if (result === undefined) throw unexpected('a dataset that was imported')
  const { id, table_name: table, database } = result
  return { id, permission: `[${database.database_name}].[${table}](id:${id})` }
}

async function roleId(session: SupersetSession, name: string): Promise<number> {
  const found = await find(session, 'security/roles', 'name', name)
  if (found !== null) return found.id
  const made = (await session.send('POST', '/api/v1/security/roles/', { name })) as Partial<Found>
  if (typeof made.id !== 'number') throw unexpected('a role that was made')
  return made.id
}

/** Of the audience, rows of the tenant; of everybody else, none. */
async function putRules(
  session: SupersetSession,
  dataset: DashboardDataset,
  datasetId: number,
  { tenant, roles }: { readonly tenant: string; readonly roles: readonly number[] },
): Promise<void> {
  const own = `${dataset.table.tenantColumn} = '${tenant.replaceAll("'", "''")}'`
  await putRule(session, {
    ...{ name: ruleName('classification', dataset), filter_type: 'Base', clause: '1 = 0' },
    ...{ tables: [datasetId], roles, description: 'Whoever is not in the audience sees no rows.' },
  })
  await putRule(session, {
    ...{ name: ruleName('tenant', dataset), filter_type: 'Regular', clause: own },
    ...{ tables: [datasetId], roles, description: 'The audience sees rows of its tenant.' },
  })
}

async function putRule(session: SupersetSession, rule: { readonly name: string }): Promise<void> {
  const found = await find(session, 'rowlevelsecurity', 'name', rule.name)
  if (found === null) await session.send('POST', '/api/v1/rowlevelsecurity/', rule)
  else await session.send('PUT', `/api/v1/rowlevelsecurity/${found.id}`, rule)
}

/** Of `datasource_access` on the dataset. */
async function permissionId(session: SupersetSession, dataset: string): Promise<number> {
  const resource = await find(session, 'security/resources', 'name', dataset)
  if (resource === null) throw unexpected('the permission on a dataset')
  const page = `/api/v1/security/permissions-resources/?q=${encodeURIComponent(
    `(filters:!((col:view_menu,opr:rel_o_m,value:${resource.id})),page_size:100)`,
  )}`
  const { result = [] } = (await session.get(page)) as {
    readonly result?: readonly { readonly id: number; readonly permission: { readonly name: string } }[]
  }
  const found = result.find(({ permission }) => permission.name === 'datasource_access')
  if (found === undefined) throw unexpected('the permission on a dataset')
  return found.id
}

/** A role's permissions are sent as a whole; only that one is changed. */
async function setPermission(session: SupersetSession, role: number, id: number, isGiven: boolean): Promise<void> {
  const answer = await session.get(`/api/v1/security/roles/${role}/permissions/`)
  const { result = [] } = (answer ?? {}) as { readonly result?: readonly Found[] }
  const ids = new Set(result.map((permission) => permission.id))
  if (ids.has(id) === isGiven) return
  if (isGiven) ids.add(id)
  else ids.delete(id)
  await session.send('POST', `/api/v1/security/roles/${role}/permissions`, { permission_view_menu_ids: [...ids] })
}

async function byUuid(session: SupersetSession, kind: string, uuid: string): Promise<Found | null> {
  const answer = (await session.get(`/api/v1/${kind}/${uuid}`)) as { readonly result?: Partial<Found> } | null
  return typeof answer?.result?.id === 'number' ? { id: answer.result.id } : null
}

async function find(session: SupersetSession, kind: string, column: string, value: string): Promise<Found | null> {
  const filter = `(filters:!((col:${column},opr:eq,value:${rison(value)})))`
  const answer = await session.get(`/api/v1/${kind}/?q=${encodeURIComponent(filter)}`)
  const { result = [] } = (answer ?? {}) as { readonly result?: readonly Found[] }
  return result[0] === undefined ? null : { id: result[0].id }
}

/** A text in the notation of Superset's queries. */
function rison(text: string): string {
  return `'${text.replace(/[!']/g, '!$&')}'`
}

function unexpected(what: string): SluiceError {
  return new SluiceError('CONFIG', `the dashboard server does not show ${what}`, {
    code: 'dashboards_refused',
    remedy: 'Give the login of dashboards.username the role Admin, and use the release that this runtime is made for.',
  })
}
