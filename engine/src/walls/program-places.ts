/** Where the modules of a program that is one file are, as they see it: still where they lie. */
import { readFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { OnResolveArgs, Plugin, PluginBuild } from 'esbuild'

/** Sources of these packages; drivers of others that ask for their own place stay installed. */
const OWN_SOURCES = /\.ts$|[\\/]@sluice[\\/].+\.js$/
/** Not in quotes, where it is a word about it. */
const OWN_PLACE = /(?<!['"`])import\.meta\.(url|dirname|filename)\b/g
const OWN_LOOKUP = /import\.meta\.resolve\('([^']+)'\)/g

/** Modules are told their own place where they ask for it: programs and files beside them are found from there. */
export function inOwnPlaces(): Plugin {
  return {
    name: 'own-places',
    setup(build) {
      build.onLoad({ filter: OWN_SOURCES }, async ({ path }) => {
        const text = await readFile(path, 'utf8')
        if (!text.includes('import.meta')) return null
        const places = { url: pathToFileURL(path).href, dirname: dirname(path), filename: path }
        const placed = text.replaceAll(OWN_PLACE, (_, name: keyof typeof places) => JSON.stringify(places[name]))
        const contents = await withLookups(placed, (name) => importedBy(build, name, path))
        return { contents, loader: path.endsWith('.ts') ? 'ts' : 'js' }
      })
    },
  }
}

async function withLookups(text: string, find: (name: string) => Promise<string>): Promise<string> {
  const names = new Set([...text.matchAll(OWN_LOOKUP)].map(([, name]) => name as string))
  const found = new Map(await Promise.all([...names].map(async (name) => [name, await find(name)] as const)))
  return text.replaceAll(OWN_LOOKUP, (whole, name: string) => {
    const href = found.get(name)
    return href === undefined ? whole : JSON.stringify(href)
  })
}

/** Marks what this file asks esbuild itself. */
const ASKED = Symbol('asked for a place')

async function importedBy(build: PluginBuild, name: string, importer: string): Promise<string> {
  const { path, errors } = await build.resolve(name, {
    kind: 'import-statement',
    importer,
    resolveDir: dirname(importer),
    pluginData: ASKED,
  })
  if (errors.length > 0) throw new Error(`${importer} asks where ${name} is, which is not found`)
  return pathToFileURL(path).href
}

/** These packages are loaded from where they are installed, however deep below the one that imports them. */
export function asInstalled(packages: readonly string[]): Plugin {
  return {
    name: 'as-installed',
    setup(build) {
      if (packages.length === 0) return
      const names = packages.map((name) => name.replaceAll(/[^\w@/-]/g, '\\$&')).join('|')
      build.onResolve({ filter: new RegExp(`^(?:${names})(?:/|$)`) }, async (asked) => {
        if (asked.pluginData === ASKED) return null
        return { path: await placeOf(build, asked), external: true }
      })
    },
  }
}

async function placeOf(build: PluginBuild, { path: name, kind, importer, resolveDir }: OnResolveArgs): Promise<string> {
  // A module of CommonJS takes a path, and often tries whether an optional package is there.
  if (kind.startsWith('require')) {
    try {
      return createRequire(join(resolveDir, 'here.js')).resolve(name)
    } catch {
      return name
    }
  }
  const { path, errors } = await build.resolve(name, { kind, importer, resolveDir, pluginData: ASKED })
  return errors.length > 0 ? name : pathToFileURL(path).href
}
