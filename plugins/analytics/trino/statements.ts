/** For the runtime, which carries out queries and transforms in the same Trino: statements, tenants’ catalogs and types. */
export { catalogOf, ensureCatalog } from './catalogs.ts'
export { TrinoClient, TrinoFailure, type TrinoResult, type TrinoRow } from './client.ts'
export { selectedText, sqlType, textLiteral } from './dialect.ts'
export { loginOf, send, type TrinoAnswer, type TrinoColumn, type TrinoType } from './protocol.ts'
export { settingsSchema, type TrinoSettings } from './settings.ts'
