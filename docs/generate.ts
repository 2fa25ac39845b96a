/**
 * Writes the reference pages in docs/generated from the tables that the runtime itself uses. With `--check` it writes
 * nothing and ends with 1 where a page is not what it would write.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import type { ServingPlugin } from '@sluice/sdk'
import { loadConfig } from '../runtime/src/config.ts'
import { servingTypesOf } from '../runtime/src/manifest/context.ts'
import { manifestSchemas } from '../runtime/src/manifest/json-schemas.ts'
import { loadPlugin } from '../runtime/src/plugins/loader.ts'
import { capabilitiesPage } from './capabilities-page.ts'
import { configurationPage } from './configuration-page.ts'
import { decisionsPage } from './decisions-page.ts'
import { errorsPage } from './errors-page.ts'
import { proofsPage } from './proofs-page.ts'

const GENERATED = join(import.meta.dirname, 'generated')
const CERTIFICATES = join(import.meta.dirname, 'certificates')
const DECISIONS = join(import.meta.dirname, 'decisions')

/** Built-in stores that need a server of another kind, and so are not among the defaults. */
const ON_SERVERS = ['@sluice/realtime/redis', '@sluice/analytics/trino']

const PROOF = { allowUnproved: false, trustedKeys: [], folder: null }

async function builtInStores(): Promise<readonly ServingPlugin[]> {
  const { plugins } = loadConfig({ environment: {}, flags: {} })
  return storesOf(plugins)
}

async function storesOf(specifiers: readonly string[]): Promise<readonly ServingPlugin[]> {
  const loaded = await Promise.all(specifiers.map((specifier) => loadPlugin(specifier, import.meta.dirname, PROOF)))
  return loaded.flatMap(({ plugin }) => (plugin.kind === 'serving' ? [plugin] : []))
}

async function pages(): Promise<ReadonlyMap<string, string>> {
  const stores = await builtInStores()
  const schemas = Object.entries(manifestSchemas(servingTypesOf(stores)))
  return new Map([
    ['errors.md', errorsPage()],
    ['configuration.md', configurationPage()],
    ['capabilities.md', capabilitiesPage([...stores, ...(await storesOf(ON_SERVERS))])],
    ['proofs.md', proofsPage(CERTIFICATES, stores)],
    ['decisions.md', decisionsPage(DECISIONS)],
    ...schemas.map(
      ([name, schema]) => [`manifest-schemas/${name}.json`, `${JSON.stringify(schema, null, 2)}\n`] as const,
    ),
  ])
}

function present(): readonly string[] {
  if (!existsSync(GENERATED)) return []
  const entries = readdirSync(GENERATED, { recursive: true, withFileTypes: true })
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) =>
      join(entry.parentPath, entry.name)
        .slice(GENERATED.length + 1)
        .replaceAll('\\', '/'),
    )
}

const wanted = await pages()
const stale = [...wanted].filter(([name, text]) => {
  const path = join(GENERATED, name)
  return !existsSync(path) || readFileSync(path, 'utf8') !== text
})
const superfluous = present().filter((name) => !wanted.has(name))

if (process.argv.includes('--check')) {
  const names = [...stale.map(([name]) => name), ...superfluous]
  for (const name of names) console.error(`docs/generated/${name} is not current: run node docs/generate.ts`)
  if (names.length === 0) console.log(`docs/generated: ${wanted.size} pages are current`)
  process.exitCode = names.length === 0 ? 0 : 1
} else {
  for (const [name, text] of stale) {
    mkdirSync(dirname(join(GENERATED, name)), { recursive: true })
    writeFileSync(join(GENERATED, name), text)
  }
  for (const name of superfluous) rmSync(join(GENERATED, name))
  console.log(`docs/generated: ${stale.length} of ${wanted.size} pages written, ${superfluous.length} removed`)
}
