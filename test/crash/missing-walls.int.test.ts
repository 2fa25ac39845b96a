/** A kernel that has no Landlock, or no seccomp, and what a runtime does on it. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, describe, it } from 'node:test'
import { promisify } from 'node:util'
import { RuntimeProcess } from './runtime-process.ts'

const LAUNCHER = join(import.meta.dirname, '../../runtime/bin/sluice.js')
const OLDER_KERNEL = join(import.meta.dirname, 'older-kernel.fixture.ts')
const run = promisify(execFile)

describe('without walls', { skip: process.platform !== 'linux' }, async () => {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-no-walls-'))
  after(() => rm(folder, { recursive: true, force: true }))

  const WITHOUT = { landlock: ['files'], seccomp: ['network', 'processes'] }
  for (const [without, missing] of Object.entries(WITHOUT)) {
    it(`the engine and connectors refuse work that needs them: ${without}`, async () => {
      const program = join(import.meta.dirname, 'walled-work.fixture.ts')
      const env = { ...process.env, SLUICE_TEST_KERNEL_WITHOUT: without }
      const { stdout } = await run(process.execPath, ['--import', OLDER_KERNEL, program], { env })
      const refused = 'walls_missing'
      assert.deepEqual(JSON.parse(stdout), { kernel: missing, tenant: refused, own: 'done', source: refused })
    })
  }

  it('a runtime takes one tenant, listens on its machine only, and says so, unless they are not required', async () => {
    const data = join(folder, 'data')
    const config = join(folder, 'sluice.yaml')
    const tenant = (slug: string) =>
      run(process.execPath, [LAUNCHER, 'tenant', 'create', slug, '--tier', 'free', '--data-dir', data])
    const start = async (walls: string) => {
      await writeFile(config, `host: 0.0.0.0\nwalls: ${walls}\n`)
      return RuntimeProcess.spawn(data, null, 0, config, OLDER_KERNEL)
    }
    const served = async (runtime: RuntimeProcess) => {
      const url = await runtime.address()
      assert.ok(url, runtime.output)
      const { port } = new URL(url)
      const readiness = await (await fetch(`http://127.0.0.1:${port}/readyz`)).json()
      const { checks } = readiness as { readonly checks: readonly Readonly<Record<string, unknown>>[] }
      const outside = Object.values(networkInterfaces())
        .flatMap((addresses) => addresses ?? [])
        .find(({ internal, family }) => !internal && family === 'IPv4')
      const isReached = fetch(`http://${outside?.address}:${port}/livez`).then(Boolean, () => false)
      return { walls: checks.find(({ name }) => name === 'walls'), isReached: outside ? await isReached : null }
    }

    const required = await start('required')
    try {
      const { walls, isReached } = await served(required)
      assert.equal(walls?.['confined'], true)
      assert.deepEqual(walls?.['missing'], [{ name: 'files', up: false, why: 'the kernel has no Landlock' }])
      assert.notEqual(isReached, true)
      assert.match(
        required.output,
        /lacks walls between tenants: files .* takes one tenant and listens on this machine/,
      )
      await tenant('acme')
      await assert.rejects(tenant('other'), /walls/)
    } finally {
      await required.stop()
    }

    const free = await start('not_required')
    try {
      const { walls, isReached } = await served(free)
      assert.equal(walls?.['confined'], false)
      assert.notEqual(isReached, false)
      await tenant('other')
    } finally {
      await free.stop()
    }

    const tooMany = await start('required')
    assert.equal((await tooMany.ended).code, 1)
    assert.match(tooMany.output, /lacks walls between tenants, and the registry has more than one/)
  })
})
