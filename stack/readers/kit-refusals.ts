/**
 * Tests of the compatibility kit that a runtime does not pass, by why: each is a refusal that was decided. A test that is
 * not here passes or is one that the kit itself leaves out; one that is here fails, and in the way that is said.
 */
export interface Refusal {
  readonly why: string
  /** Found in what each of the tests fails with. */
  readonly failure: RegExp
  /** Of the kit's CatalogTests. */
  readonly tests: readonly string[]
}

export const REFUSALS: readonly Refusal[] = [
  {
    why: "The test's data files are not there. What a commit names must lie in the table's own folder and be there.",
    failure: /outside of the table/,
    tests: [
      'testAppend()',
      'testCatalogWithCustomMetricsReporter()',
      'testConcurrentAppendEmptyTable()',
      'testConcurrentAppendNonEmptyTable()',
      'testConcurrentReplaceTransactionPartitionSpec()',
      'testConcurrentReplaceTransactionPartitionSpec2()',
      'testConcurrentReplaceTransactionPartitionSpecConflict()',
      'testConcurrentReplaceTransactionSchema()',
      'testConcurrentReplaceTransactionSchema2()',
      'testConcurrentReplaceTransactionSchemaConflict()',
      'testConcurrentReplaceTransactionSortOrder()',
      'testConcurrentReplaceTransactionSortOrderConflict()',
      'testConcurrentReplaceTransactions()',
      'testCreateOrReplaceReplaceTransactionReplace()',
      'testCreateOrReplaceTransactionCreate()',
      'testCreateTransaction()',
      'testRegisterTable()',
      'testRemoveUnusedSchemas(boolean)[1]',
      'testRemoveUnusedSchemas(boolean)[2]',
      'testRemoveUnusedSpec(boolean)[1]',
      'testRemoveUnusedSpec(boolean)[2]',
      'testReplaceTableKeepsSnapshotLog()',
      'testReplaceTransaction()',
    ],
  },
  {
    why: 'The catalog chooses the folder of each table.',
    failure: /the catalog chooses where/,
    tests: [
      'testCompleteCreateOrReplaceTransactionCreate()',
      'testCompleteCreateOrReplaceTransactionReplace()',
      'testCompleteCreateTable()',
      'testCompleteCreateTransaction()',
      'testCompleteCreateTransactionMultipleSchemas()',
      'testCompleteCreateTransactionV2()',
      'testCompleteReplaceTransaction()',
      'testCreateTableWithDefaultColumnValue()',
      'testLoadTable()',
    ],
  },
  {
    why: 'Tables are of format version 2.',
    failure: /tables are of format version 2/,
    tests: ['createTableTransaction(int)[1]', 'createTableTransaction(int)[3]', 'replaceTableTransaction(int)[1]'],
  },
  {
    why: 'Status and type of the error are those of the specification; its text, which the specification leaves open, is ours.',
    failure: /Expecting (throwable message|actual|message to be)/,
    tests: [
      'renameTableNamespaceMissing()',
      'tableCreationWithoutNamespace()',
      'testBasicCreateTableThatAlreadyExists()',
      'testConcurrentCreateTransaction()',
      'testCreateExistingNamespace()',
      'testCreateOrReplaceTransactionConcurrentCreate()',
      'testDropNonEmptyNamespace()',
      'testListNonExistingNamespace()',
      'testLoadMissingTable()',
      'testLoadNamespaceMetadata()',
      'testLoadTableWithNonExistingNamespace()',
      'testRemoveNamespacePropertiesNamespaceDoesNotExist()',
      'testRenameTableDestinationTableAlreadyExists()',
      'testRenameTableMissingSourceTable()',
      'testReplaceTransactionRequiresTableExists()',
      'testSetNamespacePropertiesNamespaceDoesNotExist()',
      'testUUIDValidation()',
      'testUpdateTableAssignmentSpecConflict()',
      'testUpdateTableSchemaAssignmentConflict()',
      'testUpdateTableSchemaConflict()',
      'testUpdateTableSpecConflict()',
    ],
  },
  {
    why: 'No path of the runtime has a slash within a segment.',
    failure: /the path is refused|Bad Request/,
    tests: ['testNamespaceWithSlash()', 'testTableNameWithSlash()'],
  },
  {
    why: 'The sandbox is the only namespace that is made through the catalog, and its tables are made there alone.',
    failure: /is changed through the catalog/,
    tests: ['testListNamespaces()', 'testListTables()', 'testRegisterExistingTable()'],
  },
]
