/** Which folders of the machine connections may name: by tenant, and by the operator's decision alone. */
import { realpathSync } from 'node:fs'
import { isAbsolute, join, relative, resolve } from 'node:path'
import { type JsonSchema, SluiceError } from '@sluice/sdk'

export class FolderRules {
  readonly #allow: Readonly<Record<string, readonly string[]>>

  /**
   * `allow` by tenant: folders that its connections may read under. Throws CONFIG for one that is no path from the root, or
   * that holds a private folder, or is held by one.
   */
  constructor(allow: Readonly<Record<string, readonly string[]>>, privateFolders: readonly string[]) {
    const secret = privateFolders.map(realOf)
    for (const root of Object.values(allow).flat()) {
      if (!isAbsolute(root)) throw wrongRoot(root, 'is no path from the root', 'Write it as /srv/files.')
      const real = realOf(root)
      if (secret.some((one) => isWithin(one, real) || isWithin(real, one)))
        throw wrongRoot(
          root,
          'has to do with what is the runtime’s own',
          'Name a folder that is apart from data_dir and secrets_dir.',
        )
    }
    this.#allow = allow
  }

  /**
   * The allowed folders that settings which are folders (`x-folder`) lie under, as they really are: what a connector may
   * read. Throws PERMISSION `folder_refused`. A link counts as what it leads to.
   */
  rootsOf(
    { properties = {} }: JsonSchema,
    settings: Readonly<Record<string, unknown>>,
    tenant: string | null,
  ): readonly string[] {
    const folders = Object.keys(properties).filter((name) => properties[name]?.['x-folder'] === true)
    return folders.flatMap((name) => {
      const folder = settings[name]
      return typeof folder === 'string' ? [this.#rootOf(folder, tenant)] : []
    })
  }

  #rootOf(folder: string, tenant: string | null): string {
    const allowed = tenant !== null && Object.hasOwn(this.#allow, tenant) ? (this.#allow[tenant] ?? []) : []
    const real = folder.includes('\0') ? null : realOf(folder)
    const root = real === null ? undefined : allowed.map(realOf).find((one) => isWithin(real, one))
    if (root !== undefined) return root
    throw new SluiceError('PERMISSION', 'that folder may not be read', {
      code: 'folder_refused',
      remedy: 'Name a folder that the operator allows for the tenant under folders.allow in sluice.yaml.',
    })
  }
}

/** Where a path leads. Of one that is not there, where its nearest folder that is does. */
export function realOf(path: string): string {
  const whole = resolve(path)
  try {
    return realpathSync(whole)
  } catch {
    const parent = resolve(whole, '..')
    return parent === whole ? whole : join(realOf(parent), relative(parent, whole))
  }
}

export function isWithin(folder: string, other: string): boolean {
  const path = relative(other, folder)
  return path === '' || (path !== '..' && !path.startsWith('../') && !isAbsolute(path))
}

function wrongRoot(root: string, why: string, remedy: string): SluiceError {
  return new SluiceError('CONFIG', `"${root}" under folders.allow ${why}`, { code: 'invalid_config', remedy })
}
