/**
 * What an engine asks the runtime before it does something for somebody who sends it statements: how questions and answers
 * are written is the plugin's, what somebody may is the runtime's.
 */

/** A table by the names under which the engine shows it. */
export interface PolicyTable {
  readonly catalog: string
  readonly schema: string
  readonly table: string
}

export type PolicyQuestion =
  /** May it begin a statement? */
  | { readonly about: 'statement' }
  /** May it know of the catalog, and name its schemas? */
  | { readonly about: 'catalog'; readonly catalog: string }
  | { readonly about: 'schema'; readonly catalog: string; readonly schema: string }
  /** May it know of the table and its columns, as the engine would read them: all of them, and all of their past? */
  | { readonly about: 'table'; readonly table: PolicyTable }
  /** As `table`, and its rows are about to be read: what has to be is put on record. */
  | { readonly about: 'rows'; readonly table: PolicyTable }
  /** May it see or end a statement of that user? */
  | { readonly about: 'others-statement'; readonly owner: string }
  /** Of the engine's own, and everybody's whom the issuer has named: it shows each what the other questions let through. */
  | { readonly about: 'own' }
  /** What only the platform's own login does: it makes and drops catalogs. */
  | { readonly about: 'operation' }
  /** Nobody's: all that is not known. */
  | { readonly about: 'nothing' }

export interface PolicyRequest {
  /** As the engine calls who wants it. */
  readonly user: string
  /** Answered in their order, each yes or no. */
  readonly questions: readonly PolicyQuestion[]
  /** The answer's body, as JSON. Throws where it cannot say what has to be said: then the engine is given none. */
  answer(allowed: readonly boolean[]): unknown
}

export interface PolicyProtocol {
  /**
   * What a request asks; null where nothing is asked at that path. Throws for what is half understood: an engine that is given
   * no answer does nothing. Pure.
   * @param path without the slash in front: `allow`
   */
  read(path: string, body: unknown): PolicyRequest | null
}
