/** `sluice product lint`: the checks of an upload, without a server and without asking the sources. */
import type { ServingPlugin } from '@sluice/sdk'
import { parse } from 'yaml'
import type { Config } from '../config.ts'
import { dashboardPlugin, dashboardSupport } from '../dashboards/driver.ts'
import { servingTypesOf } from '../manifest/context.ts'
import { type ParsedManifests, parseManifests } from '../manifest/parse-manifests.ts'
import { findPlugin, loadPlugin } from '../plugins/loader.ts'
import { isService } from '../plugins/services.ts'
import { problemLine, readManifests } from './product-files.ts'

export interface LintResult {
  readonly ok: boolean
  /** Problems, or warnings where there are none. */
  readonly lines: readonly string[]
}

export async function lintFolder(folder: string, config: Config): Promise<LintResult> {
  const texts = await readManifests(folder)
  const parsed = (await manifestParser(config))(texts)
  const shown = parsed.ok ? parsed.warnings : parsed.problems
  return { ok: parsed.ok, lines: shown.map(problemLine) }
}

/** Reads and checks manifests by what this machine's configuration has: stores, classes, dashboards. */
export async function manifestParser(
  config: Config,
): Promise<(texts: Readonly<Record<string, string>>) => ParsedManifests> {
  const driver = await dashboardPlugin(config, {
    ...{ specifiers: config.plugins, baseDirectory: process.cwd() },
    onLoaded({ specifier, proof }) {
      if (proof.status === 'allowed') console.warn(`${specifier}: ${proof.message}`)
    },
  })
  const context = {
    servingTypes: servingTypesOf(await servingPlugins(config)),
    dashboards: dashboardSupport(config, driver),
    distributed: true,
    leastScheduleMs: config.limits.schedule_interval_ms,
    sensitiveClasses: config.masking.sensitive,
  }
  return (texts) =>
    parseManifests(Object.fromEntries(Object.entries(texts).map(([name, text]) => [name, Buffer.from(text)])), {
      ...context,
      product: nameOf(texts['product']),
    })
}

/** The product is what its own manifest calls it: there is nothing yet to hold it against. */
function nameOf(text: string | undefined): { readonly name: string; readonly domain: string } {
  try {
    const { name, namespace } = parse(text ?? '', { maxAliasCount: 0 }) as Record<string, unknown>
    return { name: String(name), domain: String(namespace) }
  } catch {
    return { name: '', domain: '' }
  }
}

/** Code of plugins that are not proved is not run for a check of manifests. */
async function servingPlugins(config: Config): Promise<readonly ServingPlugin[]> {
  const rules = { allowUnproved: config.allow_unproved, trustedKeys: [], folder: null }
  const loaded = await Promise.all((await ofStores(config)).map((name) => loadPlugin(name, process.cwd(), rules)))
  const wanted = new Set(Object.entries(config.serving).map(([type, { driver }]) => `${type}/${driver}`))
  return loaded.flatMap(({ plugin }) =>
    plugin.kind === 'serving' && wanted.has(`${plugin.type}/${plugin.name}`) ? [plugin] : [],
  )
}

/** Without those that bring a server: of these a manifest names only what its dashboards are made by. */
async function ofStores({ plugins }: Config): Promise<readonly string[]> {
  const found = await Promise.all(plugins.map((specifier) => findPlugin(specifier, process.cwd())))
  return plugins.filter((_, index) => found[index] !== undefined && !isService(found[index].declared))
}
