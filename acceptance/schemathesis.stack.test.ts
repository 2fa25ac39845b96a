/**
 * Requests that schemathesis makes up from the OpenAPI document, against a running server: no server error, no status,
 * type or shape that the document does not say, no input that it forbids and the server takes.
 */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { installed, runTool } from '../stack/cache.ts'
import { manifests } from './client.ts'
import { onboardPeople, openWorld, type World } from './world.ts'

const VERSION = '4.32.5'
const CONFIG = join(import.meta.dirname, 'schemathesis.toml')
/** Streams of events end only with their token; deleting the tenant would end the test. */
const EXCLUDED = ['followEvents', 'followChanges', 'deleteTenant'].flatMap((id) => ['--exclude-operation-id', id])

const ENDPOINTS = `  - type: lookup
    config: { index_columns: [id] }
  - type: realtime
    config: { key_template: "{id}" }
  - type: analytics
`

let world: World
let tool = ''
let folder = ''

before(async () => {
  const environment = await installed(`schemathesis-${VERSION}`, async (at) => {
    await runTool('python3', ['-m', 'venv', at])
    await runTool(join(at, 'bin/python'), ['-m', 'pip', 'install', '--quiet', `schemathesis==${VERSION}`])
  })
  // A script of the folder would name the place where it was made; the module does not.
  tool = join(environment, 'bin/python')
  folder = await mkdtemp(join(tmpdir(), 'sluice-schemathesis-'))
  world = await openWorld()
  await world.source.query(`DROP TABLE IF EXISTS generated_people;
    CREATE TABLE generated_people (id integer PRIMARY KEY, email text, city text);
    INSERT INTO generated_people SELECT i, 'g' || i || '@g.test', 'city ' || i FROM generate_series(1, 30) i`)
  await world.createTenant(world.tenants[0], 'enterprise')
  const developer = await world.as(world.tenants[0], 'svc-developers', 'dora')
  await onboardPeople(world, developer, manifests('public.generated_people', { endpoints: ENDPOINTS }))
})

after(async () => {
  await world?.close()
  await rm(folder, { recursive: true, force: true })
})

interface Asked {
  readonly token: readonly string[]
  readonly headers: readonly string[]
  readonly seconds: number
}

/** Prints the tool's own summary; its exit code says whether it found anything. */
async function generated({ token, headers, seconds }: Asked): Promise<void> {
  const bearer = await world.deployment.token(token)
  const sent = [`Authorization: Bearer ${bearer}`, ...headers].flatMap((header) => ['-H', header])
  const words = [
    '--config-file',
    CONFIG,
    'run',
    `${world.deployment.url}/openapi.json`,
    ...sent,
    '--checks',
    'all',
    ...EXCLUDED,
  ]
  const bounds = ['--phases', 'examples,coverage,fuzzing', '--max-time', String(seconds), '--max-examples', '15']
  const rest = [
    '--suppress-health-check',
    'all',
    '--request-timeout',
    '90',
    '--seed',
    '1',
    '--warnings',
    'off',
    '--continue-on-failure',
  ]
  const { code, output } = await run(tool, ['-m', 'schemathesis.cli', ...words, ...bounds, ...rest])
  console.log(output.slice(output.lastIndexOf('= SUMMARY =')))
  assert.equal(code, 0, output.slice(0, 20_000))
}

function run(
  command: string,
  args: readonly string[],
): Promise<{ readonly code: number | null; readonly output: string }> {
  const child = spawn(command, [...args], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, output })))
}

describe('requests made up from the document', () => {
  it('as a developer', () => generated({ token: ofTenant('svc-developers'), headers: [], seconds: 60 }))
  it('as a viewer', () => generated({ token: ofTenant('svc-viewers'), headers: [], seconds: 25 }))
  it('as an administrator', () =>
    generated({ token: ['--role', 'admin'], headers: [`X-Tenant-Id: ${world.tenants[0]}`], seconds: 30 }))
})

function ofTenant(group: string): readonly string[] {
  return ['--tenant', world.tenants[0], '--group', group, '--user', 'generator']
}
