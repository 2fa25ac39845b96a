/**
 * Finds plugins by package name or path, in the order: manifest, SDK range, certificates, code. No code of a plugin
 * runs before its manifest has been read, its range holds this SDK, and its files have been compared with what was
 * proved. What was not proved of it is switched off.
 */
import { existsSync } from 'node:fs'
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, isAbsolute, join, parse, relative, resolve, sep } from 'node:path'
import { pathToFileURL } from 'node:url'
import {
  type ConnectorPlugin,
  type DeclaredPlugin,
  type DeclaredService,
  type DependingManifest,
  declarationProblems,
  type PackageManifest,
  publishedPart,
  SDK_VERSION,
  type ServingPlugin,
  SluiceError,
} from '@sluice/sdk'
import satisfies from 'semver/functions/satisfies.js'
import validRange from 'semver/ranges/valid.js'
import { ownPlugin } from './own-plugins.ts'
import { gatherEvidence, type PluginProof, proofOf } from './proof.ts'
import type { ProofRules } from './proof-rules.ts'
import { restrictPlugin } from './restrict.ts'

export interface LoadedPlugin {
  /** As the configuration names it. */
  readonly specifier: string
  readonly packageName: string
  readonly packageVersion: string
  readonly sdkRange: string
  /** Restricted to what is proved. */
  readonly plugin: ServingPlugin | ConnectorPlugin
  readonly proof: PluginProof
}

/** The plugin with its connectors in processes of their own; `moduleUrl` is where its code is. */
export type WallConnector = (plugin: ConnectorPlugin, moduleUrl: string) => ConnectorPlugin

interface PackageJson extends DependingManifest {
  readonly name?: string
  readonly version?: string
  readonly sluice?: PackageManifest
  readonly exports?: Readonly<Record<string, string | { readonly default?: string }>>
  readonly files?: unknown
}

/** Throws CONFIG with a code that says which step failed: plugin_not_found, plugin_manifest, plugin_sdk_range, plugin_invalid. */
export async function loadPlugin(
  specifier: string,
  baseDirectory: string,
  rules: ProofRules,
  wallConnector: WallConnector = (plugin) => plugin,
): Promise<LoadedPlugin> {
  const { located, declared, sdkRange } = await findPlugin(specifier, baseDirectory)
  if (!('type' in declared))
    throw refused(specifier, 'plugin_manifest', `it declares a plugin of kind ${declared.kind}`)
  const packageName = located.packageJson.name ?? specifier
  const evidence = await gatherEvidence({ ...located, packageName }, rules)
  const module = await moduleOf(specifier, located)
  const plugin = checked(specifier, module.default, declared)
  const proof = proofOf(plugin, evidence, rules)
  return {
    specifier,
    packageName,
    packageVersion: located.packageJson.version ?? '0.0.0',
    sdkRange,
    plugin: restrictPlugin(
      plugin.kind === 'connector' ? wallConnector(plugin, located.moduleUrl) : plugin,
      proof.on,
      proof.off,
    ),
    proof,
  }
}

export interface FoundPlugin {
  readonly located: Located
  readonly declared: DeclaredPlugin | DeclaredService
  readonly sdkRange: string
}

/** What a package says of the plugin at that place, and that its range of the SDK holds this one; no code of it has run. */
export async function findPlugin(specifier: string, baseDirectory: string): Promise<FoundPlugin> {
  const located = await locate(specifier, baseDirectory)
  const manifest = located.packageJson.sluice
  if (!manifest?.sdk || typeof manifest.plugins !== 'object') {
    throw refused(specifier, 'plugin_manifest', 'its package.json has no "sluice" manifest with "sdk" and "plugins"')
  }
  if (!validRange(manifest.sdk) || !satisfies(SDK_VERSION, manifest.sdk)) {
    throw refused(specifier, 'plugin_sdk_range', `it asks for SDK ${manifest.sdk} and this runtime has ${SDK_VERSION}`)
  }
  const declared = manifest.plugins[located.subpath]
  if (!declared) throw refused(specifier, 'plugin_manifest', `its manifest names no plugin at "${located.subpath}"`)
  return { located, declared, sdkRange: manifest.sdk }
}

/** Of the runtime's own the module that it has itself, which need not lie at that place. */
export async function moduleOf(
  specifier: string,
  { isBundled, moduleUrl }: Located,
): Promise<{ readonly default?: unknown }> {
  return (isBundled ? await ownPlugin(specifier) : null) ?? (await import(moduleUrl))
}

export interface Located {
  readonly packageJson: PackageJson
  /** `.` or `./postgresql`: the key in the manifest. */
  readonly subpath: string
  readonly moduleUrl: string
  readonly packageFolder: string
  readonly published: readonly string[] | null
  /** Whether it is the very copy that the runtime depends on. */
  readonly isBundled: boolean
}

async function locate(specifier: string, baseDirectory: string): Promise<Located> {
  if (specifier.startsWith('.') || isAbsolute(specifier)) return locatePath(specifier, baseDirectory)
  const [, packageName = specifier, rest = ''] = /^((?:@[^/]+\/)?[^/]+)(\/.+)?$/.exec(specifier) ?? []
  const subpath = rest === '' ? '.' : `.${rest}`
  for (const base of [baseDirectory, import.meta.dirname]) {
    const require = createRequire(join(base, 'plugins.js'))
    try {
      const modulePath = require.resolve(specifier)
      const packageJson = await nearestPackageJson(dirname(modulePath), packageName)
      const isBundled = await isOwnDependency(packageName, specifier, modulePath)
      return locatedAt(packageJson, subpath, modulePath, isBundled)
    } catch (error) {
      if ((error as { code?: string }).code !== 'MODULE_NOT_FOUND') {
        throw refused(specifier, 'plugin_not_found', 'it could not be resolved', error)
      }
    }
  }
  throw refused(specifier, 'plugin_not_found', 'no such package is installed')
}

type FoundPackage = PackageJson & { readonly directory: string }

function locatedAt(packageJson: FoundPackage, subpath: string, modulePath: string, isBundled = false): Located {
  const moduleUrl = pathToFileURL(modulePath).href
  const packageFolder = packageJson.directory
  const published = publishedPart(packageJson.files, relative(packageFolder, modulePath).split(sep).join('/'))
  return { packageJson, subpath, moduleUrl, packageFolder, published, isBundled }
}

/** Named among the runtime's own dependencies, which are of exact versions, and resolved to the same file. */
async function isOwnDependency(packageName: string, specifier: string, modulePath: string): Promise<boolean> {
  const own = await nearestPackageJson(import.meta.dirname, '@sluice/runtime')
  if (own.dependencies?.[packageName] === undefined) return false
  try {
    return createRequire(import.meta.filename).resolve(specifier) === modulePath
  } catch {
    // What is not found from here is none of ours: it has to be proved.
    return false
  }
}

async function locatePath(specifier: string, baseDirectory: string): Promise<Located> {
  const path = resolve(baseDirectory, specifier)
  if (!existsSync(path)) throw refused(specifier, 'plugin_not_found', `there is nothing at ${path}`)
  const packageJson = await nearestPackageJson(path, null)
  const asDirectory = packageJson.directory === path
  if (asDirectory) {
    const exported = packageJson.exports?.['.'] ?? './index.js'
    const module = typeof exported === 'string' ? exported : (exported.default ?? './index.js')
    return locatedAt(packageJson, '.', join(path, module))
  }
  const inside = path.slice(packageJson.directory.length + 1)
  const declared = Object.keys(packageJson.sluice?.plugins ?? {})
  const subpath =
    declared.find((key) => inside === key.slice(2) || dirname(inside) === key.slice(2)) ?? declared[0] ?? '.'
  const isFile = /\.[cm]?[jt]s$/.test(path)
  return locatedAt(packageJson, subpath, isFile ? path : join(path, 'index.ts'))
}

async function nearestPackageJson(start: string, packageName: string | null): Promise<FoundPackage> {
  for (let directory = start; ; directory = dirname(directory)) {
    try {
      const parsed = JSON.parse(await readFile(join(directory, 'package.json'), 'utf8')) as PackageJson
      if (packageName === null || parsed.name === packageName) return { ...parsed, directory }
    } catch (error) {
      if (!['ENOENT', 'ENOTDIR'].includes((error as { code?: string }).code ?? '')) throw error
    }
    if (directory === parse(directory).root) {
      throw refused(packageName ?? start, 'plugin_manifest', 'no package.json stands above it')
    }
  }
}

function checked(specifier: string, candidate: unknown, declared: DeclaredPlugin): ServingPlugin | ConnectorPlugin {
  const plugin = candidate as Partial<ServingPlugin | ConnectorPlugin> | null | undefined
  const complete = plugin && typeof plugin.open === 'function' && plugin.settingsSchema && plugin.capabilities
  if (!complete) throw refused(specifier, 'plugin_invalid', 'its default export is no plugin object')
  if (plugin.kind !== declared.kind || plugin.type !== declared.type || plugin.name !== declared.name) {
    throw refused(specifier, 'plugin_invalid', 'its default export is not what its manifest declares')
  }
  const [problem] = plugin.kind === 'serving' ? declarationProblems(plugin as ServingPlugin) : []
  if (problem !== undefined) throw refused(specifier, 'plugin_invalid', problem)
  return plugin as ServingPlugin | ConnectorPlugin
}

export function refused(specifier: string, code: string, why: string, cause?: unknown): SluiceError {
  return new SluiceError('CONFIG', `the plugin "${specifier}" cannot be loaded: ${why}`, {
    code,
    remedy: 'Check the plugins named in the configuration and that their packages are installed.',
    cause,
  })
}
