/** A runtime as `runtimeOnPostgres`, whose lake lies in buckets. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { ServerKind } from '../server.ts'
import { runtimeOnPostgres } from './runtime.ts'
import { versitygw } from './versitygw.ts'

export const runtimeOnS3: ServerKind = {
  name: 'a runtime on an outside PostgreSQL and an S3 store',
  variable: runtimeOnPostgres.variable,
  version: async () => `${await versitygw.version?.()}`,
  async start(folder) {
    const [objects, rest] = [join(folder, 's3'), join(folder, 'runtime')]
    for (const dir of [objects, rest]) await mkdir(dir, { recursive: true })
    const store = await versitygw.start(objects)
    const settings = {
      SLUICE_OBJECT_STORE__TYPE: 's3',
      SLUICE_OBJECT_STORE__ENDPOINT: store.env['SLUICE_TEST_S3_URL'],
      SLUICE_OBJECT_STORE__ACCESS_KEY_ID: store.env['SLUICE_TEST_S3_KEY'],
      SLUICE_OBJECT_STORE__SECRET_ACCESS_KEY: store.env['SLUICE_TEST_S3_SECRET'],
    }
    // The runtime takes its settings from this process's environment, beside those of its databases.
    Object.assign(process.env, settings)
    try {
      const runtime = await runtimeOnPostgres.start(rest)
      return { env: runtime.env, stop: () => runtime.stop().finally(() => store.stop()) }
    } catch (error) {
      await store.stop()
      throw error
    } finally {
      for (const name of Object.keys(settings)) delete process.env[name]
    }
  },
}

export default runtimeOnS3
