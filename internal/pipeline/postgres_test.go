package pipeline_test

import "testing"

// TestPostgreSQL plays what a turn does once more with its journal in PostgreSQL, where
// it has a lease: the rig of a test that runs under this name has it there.
func TestPostgreSQL(t *testing.T) {
	for _, tt := range []struct {
		name string
		play func(*testing.T)
	}{
		{"Turns", TestTurns},
		{"DuplicatesRunOnce", TestDuplicatesRunOnce},
		{"Continuity_ThirtyTurns", TestContinuity_ThirtyTurns},
		{"Continuity_CrashAfterTheProviderForgot", TestContinuity_CrashAfterTheProviderForgot},
		{"Queue_InOrderAndUpToDate", TestQueue_InOrderAndUpToDate},
		{"Queue_SurvivesARestart", TestQueue_SurvivesARestart},
		{"Queue_SweepStartsAnIdleQueue", TestQueue_SweepStartsAnIdleQueue},
		{"Queue_BehindATurnThatWaits", TestQueue_BehindATurnThatWaits},
		{"Queue_EndsInTime", TestQueue_EndsInTime},
		{"Queue_IsBounded", TestQueue_IsBounded},
		{"Queue_KeepsTheExecution", TestQueue_KeepsTheExecution},
		{"Queue_ErasedWithItsSession", TestQueue_ErasedWithItsSession},
		{"Interrupt", TestInterrupt},
		{"Concurrency_ManyAtOnce", TestConcurrency_ManyAtOnce},
		{"Cancel_InEveryState", TestCancel_InEveryState},
		{"Cancel_MeetsTheEnd", TestCancel_MeetsTheEnd},
		{"Cancel_OfAWaitingTurnIsInItsStreamAtOnce", TestCancel_OfAWaitingTurnIsInItsStreamAtOnce},
		{"Cancel_OfARunningTurnIsDurable", TestCancel_OfARunningTurnIsDurable},
		{"Cancel_DoesNotWaitForAToolForEver", TestCancel_DoesNotWaitForAToolForEver},
		{"Cancel_WhileTheTurnIsHandedOver", TestCancel_WhileTheTurnIsHandedOver},
		{"Cancel_WhileTheTurnIsDrained", TestCancel_WhileTheTurnIsDrained},
		{"Cancel_AfterTheAnswer", TestCancel_AfterTheAnswer},
		{"Deadline_OfEveryState", TestDeadline_OfEveryState},
		{"BrokenOff_WhileAToolRuns", TestBrokenOff_WhileAToolRuns},
		{"Drain_TurnGoesOnAfterRestart", TestDrain_TurnGoesOnAfterRestart},
		{"Drain_WhileATurnOpens", TestDrain_WhileATurnOpens},
		{"Execute_WhileTheTurnBeforeEnds", TestExecute_WhileTheTurnBeforeEnds},
		{"Execute_BeforeTheTurnBeforeHasLeft", TestExecute_BeforeTheTurnBeforeHasLeft},
		{"Continue_BeforeTheTurnHasLeft", TestContinue_BeforeTheTurnHasLeft},
		{"Continue_WhileDraining", TestContinue_WhileDraining},
		{"Follow_ContinuedTurnBrokenOff", TestFollow_ContinuedTurnBrokenOff},
		{"Follow_EndsWithItsDelivery", TestFollow_EndsWithItsDelivery},
		{"Follow_JoinsARunningTurnFromAnywhere", TestFollow_JoinsARunningTurnFromAnywhere},
		{"Budget_RefusesNewTurns", TestBudget_RefusesNewTurns},
		{"Budget_EndsARunningTurn", TestBudget_EndsARunningTurn},
		{"Budget_SideBySide", TestBudget_SideBySide},
		{"Budget_FailedTurnsCount", TestBudget_FailedTurnsCount},
		{"Budget_SurvivesARestart", TestBudget_SurvivesARestart},
		{"Quota_Turns", TestQuota_Turns},
		{"Erase_EndsTheRunningTurn", TestErase_EndsTheRunningTurn},
		{"ErasedSession_ItsRunningTurnIsNotTheNewOnes", TestErasedSession_ItsRunningTurnIsNotTheNewOnes},
		{"Retention", TestRetention},
		{"Resume_ToolsStayFrozen", TestResume_ToolsStayFrozen},
		{"Resume_IsFollowedLive", TestResume_IsFollowedLive},
		{"Resume_ReaderIsAheadOfTheJournal", TestResume_ReaderIsAheadOfTheJournal},
		{"Resume_OverAToolRepeatsNothing", TestResume_OverAToolRepeatsNothing},
		{"Resume_TurnThatCannotGoOn", TestResume_TurnThatCannotGoOn},
		{"Resume_TwiceBehindTextThatIsVoid", TestResume_TwiceBehindTextThatIsVoid},
		{"Resume_TwiceUnderAReader", TestResume_TwiceUnderAReader},
		{"StoreFails_TurnHasOneEnd", TestStoreFails_TurnHasOneEnd},
		{"Recover_TakesTurnsUpTogether", TestRecover_TakesTurnsUpTogether},
		{"ConcurrentModeSwitchesAndTurns", TestConcurrentModeSwitchesAndTurns},
		{"ModeChange_AfterTheUsersOwn", TestModeChange_AfterTheUsersOwn},
		{"Gather_TextWaitsBehindAHeldStep", TestGather_TextWaitsBehindAHeldStep},
		{"Gather_StillbornTurnLeavesNothing", TestGather_StillbornTurnLeavesNothing},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.play(t)
		})
	}
}
