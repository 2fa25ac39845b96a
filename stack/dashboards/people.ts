/** People of the dashboard server, and what they find there: asked of Superset’s own REST API. */
import assert from 'node:assert/strict'
import { SluiceError } from '@sluice/sdk'
import { SupersetClient, type SupersetSession } from '../../plugins/dashboard/superset/client.ts'

const url = process.env['SLUICE_TEST_SUPERSET_URL'] as string
const [username = '', password = ''] = (process.env['SLUICE_TEST_SUPERSET_LOGIN'] ?? '').split(':')
const PASSWORD = 'a-password-of-tests'

// biome-ignore lint/suspicious/noExplicitAny: answers are checked where they are used
type Json = any

export const login = (name: string, secret = PASSWORD): Promise<SupersetSession> =>
  new SupersetClient({ url, username: name, password: secret, timeoutMs: 120_000 }).open(AbortSignal.timeout(600_000))

export const operator = (): Promise<SupersetSession> => login(username, password)

/** Everything of that kind that the person is shown. */
export async function listed(session: SupersetSession, kind: string): Promise<readonly Json[]> {
  const answer = (await session.get(`/api/v1/${kind}/?q=(page_size:100)`)) as Json
  return answer.result
}

/** Makes a person who has these roles and nothing else. */
export async function person(name: string, roles: readonly string[]): Promise<SupersetSession> {
  const admin = await operator()
  const known = (await listed(admin, 'security/roles')) as readonly { readonly id: number; readonly name: string }[]
  const ids = roles.map((role) => {
    const found = known.find((candidate) => candidate.name === role)
    assert.ok(found, `there is a role ${role}: ${known.map((candidate) => candidate.name).join(', ')}`)
    return found.id
  })
  await admin.send('POST', '/api/v1/security/users/', {
    ...{ username: name, password: PASSWORD, active: true, roles: ids },
    ...{ first_name: name, last_name: name, email: `${name}@people.test` },
  })
  return login(name)
}

/** The rows of the dataset that a chart of the person's gets. `more` is merged into the chart's query. */
export async function chartRows(
  session: SupersetSession,
  dataset: number,
  more: object = {},
): Promise<readonly Json[]> {
  const query = { columns: ['id', 'email', 'city'], metrics: [], orderby: [['id', true]], row_limit: 100, ...more }
  const answer = (await session.send('POST', '/api/v1/chart/data', {
    datasource: { id: dataset, type: 'table' },
    force: true,
    queries: [query],
    result_format: 'json',
    result_type: 'full',
  })) as Json
  return answer.result[0].data
}

/** The status of a refusal. */
export async function refusal(asked: Promise<unknown>): Promise<number> {
  const error = await asked.then(
    (answer) => assert.fail(`not refused: ${JSON.stringify(answer)?.slice(0, 300)}`),
    (thrown: unknown) => thrown,
  )
  assert.ok(error instanceof SluiceError, String(error))
  const words = `${error.message} ${(error.cause as Error | undefined)?.message ?? ''}`
  return Number(/\b([45]\d\d)\b/.exec(words)?.[1])
}
