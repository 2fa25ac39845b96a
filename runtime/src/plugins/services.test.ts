/** One design for every kind: how a service is found, told of, opened and ended. */
import assert from 'node:assert/strict'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { type RunningService, SERVICE_KINDS, type ServiceKind } from '@sluice/sdk'
import { pluginSummaries } from '../assembly/plugin-summaries.ts'
import { OWN_SERVICES } from '../config/services.ts'
import { ServiceHealth } from './service-health.ts'
import { completeSettings, type LoadedService, loadService, openService } from './services.ts'

let folder: string
before(async () => {
  folder = await mkdtemp(join(tmpdir(), 'sluice-services-'))
  for (const kind of SERVICE_KINDS) {
    await mkdir(join(folder, kind))
    const sluice = { sdk: '^1.0.0', plugins: { '.': { kind, name: 'other' } } }
    const packageJson = { name: `other-${kind}`, version: '3.2.1', type: 'module', sluice }
    await writeFile(join(folder, kind, 'package.json'), JSON.stringify(packageJson))
    await writeFile(join(folder, kind, 'index.js'), other(kind))
  }
})
after(() => rm(folder, { recursive: true }))

const other = (kind: ServiceKind) => `export default {
  kind: '${kind}', name: 'other', version: '3.2.1', description: 'Of others.',
  settingsSchema: {
    type: 'object', additionalProperties: false, required: ['password'],
    properties: { password: { type: 'string', maxLength: 10 }, parts: { type: 'integer', default: 7 } },
  },
  async open(settings) {
    if (settings.password === 'broken') throw new Error('it does not open')
    return { settings, close() { if (settings.password === 'stuck') throw new Error('it does not close') } }
  },
}`

interface Opened extends RunningService {
  readonly settings: object
}

async function loaded(kind: ServiceKind, name: string) {
  const told: LoadedService[] = []
  const search = { specifiers: [join(folder, kind)], baseDirectory: folder }
  const plugin = await loadService(kind, name, { ...search, onLoaded: (one) => told.push(one) })
  return { plugin, told }
}

for (const kind of SERVICE_KINDS) {
  test(`a service of kind ${kind} is told of with its version, and of one of others that nobody proved it`, async () => {
    const [own = ''] = Object.keys(OWN_SERVICES[kind])
    const told = [...(await loaded(kind, own)).told, ...(await loaded(kind, 'other')).told]
    const plugins = { loaded: [], serving: () => undefined }
    const [bundled, others] = pluginSummaries(plugins, told, [])
    assert.deepEqual([bundled?.kind, bundled?.name, bundled?.package], [kind, own, `@sluice/${kind}`])
    assert.deepEqual([bundled?.version, bundled?.proof.status], [bundled?.package_version, 'bundled'])
    assert.deepEqual([others?.type, others?.name, others?.version], [kind, 'other', '3.2.1'])
    assert.deepEqual([others?.package, others?.package_version], [`other-${kind}`, '3.2.1'])
    assert.deepEqual([others?.proof.status, others?.health.status], ['allowed', 'unknown'])
    assert.match(String(others?.proof.message), /^proved by nobody but you/)
  })

  test(`a service of kind ${kind} is opened by its schema, and its host ends with it, however that goes`, async () => {
    const { plugin } = await loaded(kind, 'other')
    let hosts = 0
    const hostFor = async (name: string) => {
      assert.equal(name, `${kind}-other`)
      hosts += 1
      return { [Symbol.asyncDispose]: async () => void (hosts -= 1) } as never
    }
    const health = new ServiceHealth()
    const told = () => health.states().map((one) => `${one.kind}:${one.name}`)
    const open = (settings: Readonly<Record<string, unknown>>) =>
      openService<object, Opened>(plugin as never, completeSettings(plugin, settings, 'here'), {
        hostFor,
        health,
      })
    const { service, close } = await open({ password: 'x', parts: '8' })
    assert.deepEqual([service.settings, hosts], [{ password: 'x', parts: 8 }, 1])
    assert.deepEqual(told(), [`${kind}:other`])
    await close()
    assert.deepEqual([hosts, told()], [0, []])
    await assert.rejects(open({ password: 'broken' }), /does not open/)
    const stuck = await open({ password: 'stuck' })
    await assert.rejects(stuck.close(), /does not close/)
    assert.deepEqual([hosts, told()], [0, []])
    for (const [wrong, said] of [
      [{}, /here lacks password/],
      [{ password: 'far-too-long' }, /here\.password/],
      [{ password: 'x', pass: 'far-too-long' }, /here\.pass is not known/],
    ] as const) {
      assert.throws(
        () => completeSettings(plugin, wrong, 'here'),
        (error: Error) => said.test(error.message) && !error.message.includes('far-too-long'),
      )
    }
  })
}
